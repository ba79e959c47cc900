#pragma once
// The parts that train_settings is made of, each in a file of its own.

#include <fmt/format.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "train/settings.h"

namespace tern {

/// The value with this name. A name that the table of options allows may be missing in `values`; it is refused then. Errors: usage.
template <class T, class Values>
T value_named(std::string_view option, std::string_view name, const Values& values) {
  std::string known;
  for (const auto& [text, value] : values) {
    if (text == name) return value;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", text);
  }
  throw Error(ErrorKind::usage, "--{}: '{}' is none of {}", option, name, known);
}
template <class T>
T value_named(std::string_view option, std::string_view name,
              std::initializer_list<std::pair<std::string_view, T>> values) {
  return value_named<T, decltype(values)>(option, name, values);
}

/// Whether it is an option of other update rules, but not of this one.
bool is_of_other_rules(UpdateRule, std::string_view name);

/// What the options say of an adapter; none for a verb that trains the model itself (adapter_settings.cpp). Errors: usage; those of reading
/// the configuration in --begin.
std::optional<AdapterSettings> adapter_from(const Options&);
/// Whether the run learns from pairs of answers (--method dpo).
bool learns_pairs(const Options&);

/// Checks that the settings go together (settings_checks.cpp). Errors: usage: sizes that tern cannot number, an option that is missing, an
/// option that would have no effect.
void check_settings(const Options&, const TrainSettings&);

/// A recipe that the verb can read back: a line "key = value  # origin" for each option (settings_recipe.cpp). Derived values are written
/// as values. Options that this optimizer or schedule does not have are left out, because giving them is an error.
std::string recipe_text(const Options&, const TrainSettings&);
/// A number of a recipe, written so that it is read back as a real number: "1" as "1.0".
std::string recipe_real(std::string_view);

}  // namespace tern
