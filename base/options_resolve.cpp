// One verb's options from four sources: command line > environment > recipe > default.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/familiar_words.h"
#include "base/io.h"
#include "base/options_impl.h"
#include "base/text.h"

namespace tern {

std::string positional_key(const PositionalSpec& positional) { return lowercase(positional.name); }

class OptionReader {
 public:
  OptionReader(const OptionTable& table, std::string_view verb) : table_(table), verb_(find_verb(table, verb)) {
    result_.verb_ = &verb_;
    for (const OptionSpec* spec : options_of(table, verb)) {
      Options::Value value;
      value.spec = spec;
      if (!spec->fallback.empty())
        set_option_value(value, spec->fallback, Origin::fallback, fmt::format("default of --{}", spec->name));
      result_.values_.emplace_back(spec->name, std::move(value));
      names_.push_back(spec->name);
    }
    static const OptionSpec kPositional{.name = "", .verbs = "", .type = OptionType::text};
    for (const PositionalSpec& positional : verb_.positionals) {
      result_.positionals_.emplace_back(positional.name, Options::Value{.spec = &kPositional});
    }
  }

  // Weak sources first: each later one overwrites.
  Options resolve(const std::vector<std::string>& arguments, const Environment& environment, bool require_positionals) {
    split_arguments(arguments);
    if (!result_.recipe_.empty()) apply_recipe(read_recipe(result_.recipe_));
    apply_environment(environment);
    apply_arguments();
    if (require_positionals) check_positionals();
    return std::move(result_);
  }

 private:
  struct Argument {
    Options::Value* value;
    std::string where, text;
  };

  Options::Value* find(std::string_view name) {
    for (auto& [key, value] : result_.values_)
      if (key == name) return &value;
    return nullptr;
  }

  Options::Value* find_letter(std::string_view flag) {  // "-n"
    for (auto& [key, value] : result_.values_)
      if (flag.size() == 2 && value.spec->letter != '\0' && value.spec->letter == flag[1]) return &value;
    return nullptr;
  }

  // Positionals first, options after, whatever their order on the line.
  void split_arguments(const std::vector<std::string>& arguments) {
    bool only_positionals = false;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::string& argument = arguments[i];
      if (only_positionals || argument == "-" || !argument.starts_with('-')) {
        given_positionals_.push_back(argument);
      } else if (argument == "--" && !verb_.command.empty()) {
        result_.command_.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
        break;
      } else if (argument == "--") {
        only_positionals = true;
      } else {
        const size_t equals = argument.find('=');
        const std::string flag = argument.substr(0, equals);
        Options::Value* value = flag.starts_with("--") ? find(flag.substr(2)) : find_letter(flag);
        if (value == nullptr) unknown_flag(flag);
        const OptionSpec& spec = *value->spec;
        if (spec.type != OptionType::list)
          for (const Argument& earlier : given_options_)
            if (earlier.value == value) throw Error(ErrorKind::usage, "{} is given twice; keep one", flag);
        if (equals != std::string::npos) {
          given_options_.push_back({value, flag, argument.substr(equals + 1)});
        } else if (spec.type == OptionType::flag) {
          given_options_.push_back({value, flag, "true"});
        } else if (i + 1 < arguments.size() && (arguments[i + 1] == "-" || !arguments[i + 1].starts_with("--"))) {
          given_options_.push_back({value, flag, arguments[++i]});
        } else {
          throw Error(
              ErrorKind::usage, "{} needs a value{}{}", flag, spec.unit.empty() ? "" : fmt::format(" ({})", spec.unit),
              i + 1 < arguments.size() ? fmt::format("; if '{0}' is meant, write {1}={0}", arguments[i + 1], flag)
                                       : "");
        }
      }
    }
    if (verb_.takes_recipe && !given_positionals_.empty() && looks_like_recipe(given_positionals_.front())) {
      result_.recipe_ = given_positionals_.front();
      given_positionals_.erase(given_positionals_.begin());
    }
  }

  [[noreturn]] void unknown_flag(const std::string& flag) const {
    std::string_view name = flag;
    while (name.starts_with('-')) name.remove_prefix(1);
    const std::string others = verbs_with(name);
    if (std::find(names_.begin(), names_.end(), name) == names_.end() && !others.empty())
      throw Error(ErrorKind::usage, "{} has no option {}: it belongs to {}{}{} `{} help {}` lists what there is",
                  verb_.name, flag, others,
                  verb_.command.empty() ? "" : fmt::format("; is the -- before '{}' missing?", verb_.command),
                  one_letter_off(name), program_name(), verb_.name);
    std::vector<std::string_view> candidates = names_;
    candidates.emplace_back("help");
    const std::string_view ours = familiar_option(name);
    const bool familiar = std::find(names_.begin(), names_.end(), ours) != names_.end();
    const std::string hint = familiar ? did_you_mean(ours, {ours}, "--") : did_you_mean(name, candidates, "--");
    throw Error(ErrorKind::usage, "{} has no option {}{} `{} help {}` lists all options", verb_.name, flag,
                hint.empty() ? ";" : hint, program_name(), verb_.name);
  }

  // "; did you mean …?" of an option of this verb that is one letter off; else ";".
  std::string one_letter_off(std::string_view name) const {
    for (const std::string_view own : names_)
      if (edit_distance(own, name) == 1) return did_you_mean(own, {own}, "--");
    return ";";
  }

  // In the order of `tern help`.
  std::string verbs_with(std::string_view name) const {
    std::vector<std::string> verbs;
    for (const VerbSpec& verb : table_.verbs)
      for (const OptionSpec* option : options_of(table_, verb.name))
        if (option->name == name) verbs.emplace_back(verb.name);
    return join(verbs, ", ");
  }

  void apply_recipe(const std::vector<RecipeEntry>& entries) {
    std::vector<std::string> seen;
    for (const RecipeEntry& entry : entries) {
      if (!entry.table.empty() && entry.table != verb_key(verb_.name)) {
        check_foreign_table(entry);
        continue;
      }
      const std::string name = replace_all(entry.key, "_", "-");
      if (std::find(seen.begin(), seen.end(), entry.table + "/" + name) != seen.end())
        throw Error(ErrorKind::usage, "{}: this key is given twice, once with '-' and once with '_'; keep one",
                    entry.where);
      seen.push_back(entry.table + "/" + name);
      Options::Value* value = find(name);
      if (value == nullptr) value = find_positional(name);
      if (value == nullptr) unknown_key(entry, name, verb_);
      // The verb's own table is stronger than the keys above all tables, wherever it stands in the file.
      if (entry.table.empty() && value->origin == Origin::recipe && value->set) continue;
      if (entry.is_array && value->spec->type != OptionType::list)
        throw Error(ErrorKind::usage, "{}: an array is given, one value is expected", entry.where);
      value->set = false;  // of a list too: the recipe's elements replace the default
      value->list.clear();
      if (entry.texts.empty()) continue;
      for (const std::string& text : entry.texts)
        set_option_value(*value, from_recipe(*value, name, text), Origin::recipe, entry.where);
    }
  }

  // A recipe and what it names travel together: its relative paths are its folder's. MODEL may be a name in the cache
  // instead, if there is nothing of that name beside the recipe.
  std::string from_recipe(const Options::Value& value, const std::string& key, const std::string& text) const {
    const bool is_path = value.spec->type == OptionType::path, is_model = key == "model";
    if (!(is_path || is_model) || text.empty() || text == "-" || text.starts_with('/')) return text;
    const std::string folder = parent_path(result_.recipe_);
    const std::string path = folder == "." ? text : join_path(folder, text);
    return is_path || real_io().stat(path) ? path : text;
  }

  // Other verbs' tables in a shared recipe are theirs, but their keys must exist.
  void check_foreign_table(const RecipeEntry& entry) const {
    std::vector<std::string> verbs;
    for (const VerbSpec& verb : table_.verbs) {
      verbs.push_back(verb_key(verb.name));
      if (verbs.back() != entry.table) continue;
      const std::string name = replace_all(entry.key, "_", "-");
      for (const OptionSpec* spec : options_of(table_, verb.name))
        if (spec->name == name) return;
      for (const PositionalSpec& positional : verb.positionals)
        if (positional_key(positional) == name) return;
      unknown_key(entry, name, verb);
    }
    throw Error(ErrorKind::usage, "{}: no verb has the name of this table, '{}'{}", entry.where, entry.table,
                did_you_mean(entry.table, {verbs.begin(), verbs.end()}));
  }

  [[noreturn]] void unknown_key(const RecipeEntry& entry, const std::string& name, const VerbSpec& verb) const {
    std::vector<std::string> known;
    for (const OptionSpec* spec : options_of(table_, verb.name)) known.emplace_back(spec->name);
    for (const PositionalSpec& positional : verb.positionals) known.push_back(positional_key(positional));
    const bool underscores = entry.key.find('-') == std::string::npos;
    if (underscores)
      for (std::string& key : known) key = replace_all(key, "-", "_");
    const std::string others = verbs_with(name);
    if (!others.empty())
      throw Error(ErrorKind::usage, "{}: {} has no option '{}': it belongs to {}; put it into a table of that verb",
                  entry.where, verb.name, entry.key, others);
    throw Error(ErrorKind::usage, "{}: {} has no option '{}'{}", entry.where, verb.name, entry.key,
                did_you_mean(entry.key, {known.begin(), known.end()}));
  }

  Options::Value* find_positional(std::string_view key) {
    for (size_t i = 0; i < verb_.positionals.size(); ++i)
      if (positional_key(verb_.positionals[i]) == key) return &result_.positionals_[i].second;
    return nullptr;
  }

  void apply_environment(const Environment& environment) {
    std::vector<std::string> known;
    for (const OptionSpec& option : table_.options) known.push_back(env_name(option));
    for (const EnvironmentSpec& variable : table_.environment) known.emplace_back(variable.name);
    for (const VerbSpec& verb : table_.verbs)
      for (const PositionalSpec& positional : verb.positionals) known.push_back("TERN_" + uppercase(positional.name));
    for (const auto& [name, text] : environment) {
      if (!name.starts_with("TERN_")) continue;
      if (std::find(known.begin(), known.end(), name) == known.end())
        throw Error(ErrorKind::usage, "environment: {} is no variable of tern{} Unset it, or see `{} help environment`",
                    name,
                    nearest_name(name.substr(5), without_prefix(known)).empty()
                        ? "."
                        : did_you_mean(name.substr(5), without_prefix(known), "TERN_"),
                    program_name());
      if (text.empty()) continue;  // an empty variable is an unset one
      for (auto& [key, value] : result_.values_)
        if (env_name(*value.spec) == name) set_option_value(value, text, Origin::environment, name);
      for (auto& [key, value] : result_.positionals_)
        if ("TERN_" + uppercase(key) == name) set_option_value(value, text, Origin::environment, name);
    }
  }

  static std::vector<std::string_view> without_prefix(const std::vector<std::string>& names) {
    std::vector<std::string_view> out;
    out.reserve(names.size());
    for (const std::string& name : names) out.push_back(std::string_view(name).substr(5));
    return out;
  }

  void apply_arguments() {
    for (const Argument& argument : given_options_)
      set_option_value(*argument.value, argument.text, Origin::command_line, argument.where);
    for (size_t i = 0; i < given_positionals_.size(); ++i) {
      if (i >= result_.positionals_.size()) {
        std::vector<std::string> takes;
        for (const PositionalSpec& positional : verb_.positionals) takes.emplace_back(positional.name);
        if (takes.empty())
          throw Error(ErrorKind::usage, "'{}' is one argument too many: {} takes options only{}", given_positionals_[i],
                      verb_.name, for_example());
        throw Error(ErrorKind::usage,
                    "'{}' is one argument too many: {} takes {}; put quotes around a text with blanks",
                    given_positionals_[i], verb_.name, join(takes, ", "));
      }
      auto& [name, value] = result_.positionals_[i];
      set_option_value(value, given_positionals_[i], Origin::command_line, name);
    }
  }

  // An example of the table with the program's name as it was started.
  static std::string as_typed(std::string_view example) {
    constexpr std::string_view kName = "tern ";
    return example.starts_with(kName) ? program_name() + " " + std::string(example.substr(kName.size()))
                                      : std::string(example);
  }

  std::string for_example() const {
    return verb_.examples.empty() ? "" : "; for example: " + as_typed(verb_.examples.front().first);
  }

  void check_positionals() const {
    for (size_t i = 0; i < verb_.positionals.size(); ++i) {
      const PositionalSpec& positional = verb_.positionals[i];
      if (!positional.required || !result_.positionals_[i].second.text.empty()) continue;
      throw Error(ErrorKind::usage, "{} needs {}: {}{}", verb_.name, positional.name, positional.help, for_example());
    }
  }

  const OptionTable& table_;
  const VerbSpec& verb_;
  Options result_;
  std::vector<std::string_view> names_;
  std::vector<std::string> given_positionals_;
  std::vector<Argument> given_options_;
};

Options resolve_options(const OptionTable& table, std::string_view verb, const std::vector<std::string>& arguments,
                        const Environment& environment, bool require_positionals) {
  return OptionReader(table, verb).resolve(arguments, environment, require_positionals);
}

}  // namespace tern
