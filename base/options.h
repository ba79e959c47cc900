#pragma once
// The option table describes verbs and their options as data. Flags, environment and recipes are read by it; help, man page
// and completion are made from it (options_resolve.cpp, options_recipe.cpp, options_help.cpp, options_completion.cpp). The
// command's own table is in apps/options.cpp.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tern {

enum class OptionType {
  flag,     // --name: true; --name=off: false
  toggle,   // --name on|off
  integer,  // whole number
  real,     // finite number
  count,    // finite number, also as 300B, 1.5T
  bytes,    // 2GiB, 512MB, 1048576
  seconds,  // 90, 90s, 10m, 2h
  text,
  path,
  choice,  // one of `choices`
  list,    // may be given several times
};

struct OptionSpec {
  std::string_view
      name;  // "learning-rate": --learning-rate, TERN_LEARNING_RATE, recipe key learning-rate or learning_rate
  std::string_view
      verbs;  // "train eval": the verbs that take it, by verb_key. Another row may have this name for other verbs.
  OptionType type = OptionType::text;
  std::string_view fallback = {};  // the default, as a user would type it; empty: there is none
  std::string_view unit = {};      // "tokens", "FILE": the help shows it after the flag
  std::string_view help = {};      // one line, without a full stop
  std::vector<std::string_view> choices = {};
  double min = -1e300, max = 1e300;  // allowed range of numbers, inclusive
  bool above_min = false;            // the range is open at min
  bool below_max = false;            // the range is open at max
  std::string_view env = {};         // the environment variable, if it is not TERN_NAME
  char letter = '\0';                // 'n': -n is a short form
};

struct PositionalSpec {
  std::string_view name;  // "MODEL"
  std::string_view help;
  bool required = true;
};

struct VerbSpec {
  std::string_view name, summary;  // name: as typed, of one word or two ("plan table")
  std::vector<PositionalSpec> positionals = {};
  std::vector<std::pair<std::string_view, std::string_view>> examples = {};  // command line, what it does
  bool takes_recipe = false;      // the first positional may be a recipe (.toml, or .json other than config.json)
  std::string_view details = {};  // a paragraph for `tern help VERB`
  std::string_view command = {};  // "VERB …": the verb takes a command of its own after `--`
};

/// A TERN_ variable that is not an option: tests use it, or it is read before the options are.
struct EnvironmentSpec {
  std::string_view name, help;
};

struct OptionTable {
  std::vector<VerbSpec> verbs;
  std::vector<OptionSpec> options;
  std::vector<EnvironmentSpec> environment = {};
};

enum class Origin { fallback, recipe, environment, command_line };

/// The options and positionals of a verb, with their values. A value is read by the function for the type of its row.
/// Errors: bug: the verb has no such option, or the option has another type.
class Options {
 public:
  struct Value {
    const OptionSpec* spec = nullptr;
    Origin origin = Origin::fallback;
    std::string where = {};  // "--steps", "TERN_STEPS", "run.toml:3"; empty for a default
    bool set = false;        // false: no default and not given
    std::string text = {};   // as typed; of a list: its elements joined by ", "
    bool boolean = false;
    int64_t integer = 0;  // also bytes
    double real = 0;      // also counts and seconds
    std::vector<std::string> list = {};
  };

  const VerbSpec& verb() const { return *verb_; }
  const std::string& recipe() const { return recipe_; }  // path of the recipe used, or empty

  bool knows(std::string_view name) const;                           // whether the verb has the option
  bool has(std::string_view name) const { return value(name).set; }  // given, or has a default
  bool given(std::string_view name) const { return value(name).set && value(name).origin != Origin::fallback; }
  bool flag(std::string_view name) const;                // flag, toggle
  int64_t integer(std::string_view name) const;          // integer, bytes; must be set
  double real(std::string_view name) const;              // real, count, seconds; must be set
  const std::string& text(std::string_view name) const;  // text, path, choice; "" if not set
  const std::vector<std::string>& list(std::string_view name) const;
  const Value& value(std::string_view name) const;

  /// A positional by its name ("MODEL"); "" if an optional one was left out.
  const std::string& positional(std::string_view name) const;
  bool has_positional(std::string_view name) const { return !positional(name).empty(); }

  /// The arguments after `--`, if the verb takes a command.
  const std::vector<std::string>& command() const { return command_; }

  /// Every value in the order of the table, for `config show` and a run's record.
  const std::vector<std::pair<std::string, Value>>& values() const { return values_; }
  const std::vector<std::pair<std::string, Value>>& positionals() const { return positionals_; }

 private:
  friend class OptionReader;
  const VerbSpec* verb_ = nullptr;
  std::string recipe_;
  std::vector<std::pair<std::string, Value>> values_;
  std::vector<std::pair<std::string, Value>> positionals_;
  std::vector<std::string> command_;
};

/// The keys of a recipe and their values as text: "generate.stop" for a key in a table; the elements of an array joined by commas.
/// Keys of TOML are in ascending order, keys of JSON in the order of the file. Errors: bad_file, usage, as resolve_options.
std::vector<std::pair<std::string, std::string>> read_recipe_values(const std::string& path);

/// The program's name in messages: as it was started ("./tern"), so that users can type the commands that messages show.
/// "tern" until main has set it.
const std::string& program_name();
void set_program_name(std::string name);

using Environment = std::map<std::string, std::string>;
Environment process_environment();

/// Resolves one verb's options: command line > environment > recipe > default. `arguments`: those after the verb's name.
/// `require_positionals`: false for `config show`, which may leave them out.
/// Errors  usage: an unknown flag, key or TERN_ variable (with the nearest name);
///         a value that is missing, malformed or out of range; bad_file: the recipe.
/// Paths   A relative path in a recipe is relative to the recipe's folder. MODEL is such a path only if it exists there; else its
///         text is left as it is. On the command line and in the environment, paths are relative to the working directory.
Options resolve_options(const OptionTable&, std::string_view verb, const std::vector<std::string>& arguments,
                        const Environment&, bool require_positionals = true);

/// A verb's name as one word: "plan-table".
std::string verb_key(std::string_view name);
/// Finds a verb by its name or key. Errors: usage "no verb 'trian'; did you mean 'train'?".
const VerbSpec& find_verb(const OptionTable&, std::string_view name);
/// The number of words at the front that are the verb's name: 2 if the first two are one ("plan table"), else 1; 0 if there
/// are no words.
size_t words_of_verb(const OptionTable&, std::span<const std::string> words);
/// The rows a verb takes, in the order of the table.
std::vector<const OptionSpec*> options_of(const OptionTable&, std::string_view verb);
std::string env_name(const OptionSpec&);  // TERN_LEARNING_RATE

// Texts made from the table.
std::string help_overview(const OptionTable&);
std::string help_verb(const OptionTable&, const VerbSpec&, int width = 100);
std::string man_page(const OptionTable&, std::string_view version);
std::string completion(const OptionTable&, std::string_view shell);  // bash, zsh, fish. Errors: usage
std::string markdown_table(const OptionTable&);

}  // namespace tern
