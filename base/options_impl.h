#pragma once
// Shared by the source files of the option reader; only base/ may include it.

#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"

namespace tern {

/// Sets `value` from text as typed. `where` opens error messages: "--steps", "TERN_STEPS", "run.toml:3: steps".
void set_option_value(Options::Value& value, std::string_view text, Origin origin, const std::string& where);

/// A key of a recipe. `table`: the verb in whose table it is; "": in none. `texts`: its value; of an array, a text for each element.
struct RecipeEntry {
  std::string table, key;
  std::vector<std::string> texts;
  bool is_array = false;
  std::string where;  // "run.toml:3: steps"
};

/// Reads a TOML or JSON recipe. Errors: bad_file: it is not valid TOML or JSON; usage: a value that no option can have.
std::vector<RecipeEntry> read_recipe(const std::string& path);

/// Whether an argument names a recipe: *.toml, or *.json other than a model's config.json.
bool looks_like_recipe(std::string_view path);

/// A positional's key in recipes and in TERN_ names: "MODEL" -> "model".
std::string positional_key(const PositionalSpec&);

}  // namespace tern
