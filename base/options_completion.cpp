// Completion scripts, made from the table.
#include <fmt/format.h>

#include "base/error.h"
#include "base/options.h"
#include "base/text.h"

namespace tern {
namespace {

std::vector<std::string_view> values_of(const OptionSpec& spec) {
  if (spec.type == OptionType::choice) return spec.choices;
  if (spec.type == OptionType::toggle) return {"on", "off"};
  return {};
}

// First words of verbs; and of those of two words the second ones behind this first.
std::string verb_names(const OptionTable& table) {
  std::vector<std::string> names;
  for (const VerbSpec& verb : table.verbs)
    if (split_words(verb.name).size() == 1) names.emplace_back(verb.name);
  return join(names, " ");
}
std::string names_behind(const OptionTable& table, std::string_view first) {
  std::vector<std::string> names;
  for (const VerbSpec& verb : table.verbs)
    if (const auto words = split_words(verb.name); words.size() == 2 && words[0] == first) names.emplace_back(words[1]);
  return join(names, " ");
}

std::string bash_completion(const OptionTable& table) {
  std::string out = fmt::format(
      "# bash completion of tern; load with: source <(tern completion bash)\n"
      "_tern() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]}}\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return; fi\n",
      verb_names(table));
  for (const VerbSpec& verb : table.verbs)
    if (const auto words = split_words(verb.name); words.size() == 2)
      out += fmt::format("  [ \"$COMP_CWORD\" -gt 2 ] && [ \"$verb ${{COMP_WORDS[2]}}\" = '{}' ] && verb={}\n",
                         verb.name, verb_key(verb.name));
  out += "  case \"$verb $previous\" in\n";
  for (const VerbSpec& verb : table.verbs)
    for (const OptionSpec* spec : options_of(table, verb.name))
      if (const auto values = values_of(*spec); !values.empty())
        out += fmt::format("    '{} --{}') COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return ;;\n",
                           verb_key(verb.name), spec->name, fmt::join(values, " "));
  out += "  esac\n  case \"$verb\" in\n";
  for (const VerbSpec& verb : table.verbs) {
    if (verb.name == "help") {
      out += fmt::format("    help) COMPREPLY=($(compgen -W \"{}\" -- \"$current\")) ;;\n", verb_names(table));
      continue;
    }
    std::vector<std::string> flags;
    for (const OptionSpec* spec : options_of(table, verb.name)) flags.push_back(fmt::format("--{}", spec->name));
    flags.emplace_back("--help");
    out += fmt::format("    {})\n", verb_key(verb.name));
    if (const std::string behind = names_behind(table, verb.name); !behind.empty())
      out +=
          fmt::format("      [ \"$COMP_CWORD\" -eq 2 ] && COMPREPLY=($(compgen -W \"{}\" -- \"$current\"))\n", behind);
    out += fmt::format("      [[ $current == -* ]] && COMPREPLY=($(compgen -W \"{}\" -- \"$current\")) ;;\n",
                       join(flags, " "));
  }
  return out + "  esac\n}\ncomplete -o default -F _tern tern\n";
}

// Inside single quotes of zsh and fish.
std::string quoted(std::string_view text, std::string_view quote) { return replace_all(std::string(text), "'", quote); }

std::string zsh_completion(const OptionTable& table) {
  std::string out =
      "#compdef tern\n# zsh completion of tern; write it to a file _tern in your $fpath\n_tern() {\n  local -a verbs\n "
      " verbs=(\n";
  const auto clean = [](std::string_view text) {
    return quoted(replace_all(replace_all(replace_all(std::string(text), "[", "("), "]", ")"), ":", ";"), "'\\''");
  };
  for (const VerbSpec& verb : table.verbs)
    if (split_words(verb.name).size() == 1) out += fmt::format("    '{}:{}'\n", verb.name, clean(verb.summary));
  out +=
      "  )\n  if (( CURRENT == 2 )); then _describe verb verbs; return; fi\n  local verb=${words[2]}\n  shift words; "
      "(( CURRENT-- ))\n";
  for (const VerbSpec& verb : table.verbs)
    if (const auto words = split_words(verb.name); words.size() == 2)
      out += fmt::format(
          "  if (( CURRENT > 2 )) && [[ \"$verb ${{words[2]}}\" == '{}' ]]; then verb={}; shift words; (( CURRENT-- "
          ")); "
          "fi\n",
          verb.name, verb_key(verb.name));
  out += "  case $verb in\n";
  for (const VerbSpec& verb : table.verbs) {
    const std::string behind = names_behind(table, verb.name);
    out += fmt::format("    {}) {}_arguments", verb_key(verb.name),
                       behind.empty() ? "" : fmt::format("(( CURRENT == 2 )) && compadd {}; ", behind));
    for (const OptionSpec* spec : options_of(table, verb.name)) {
      const auto values = values_of(*spec);
      std::string action;
      if (!values.empty())
        action = fmt::format(":value:({})", fmt::join(values, " "));
      else if (spec->type == OptionType::path)
        action = ":file:_files";
      else if (spec->type != OptionType::flag)
        action = ":value: ";
      out += fmt::format(" \\\n      '{}--{}[{}]{}'", spec->type == OptionType::list ? "*" : "", spec->name,
                         clean(spec->help), action);
    }
    out += " \\\n      '--help[this page]' '*:file:_files' ;;\n";
  }
  return out + "  esac\n}\n_tern \"$@\"\n";
}

std::string fish_completion(const OptionTable& table) {
  std::string out = "# fish completion of tern; write it to ~/.config/fish/completions/tern.fish\n";
  for (const VerbSpec& verb : table.verbs) {
    const auto words = split_words(verb.name);
    const std::string behind = names_behind(table, verb.name);
    std::string seen = fmt::format("__fish_seen_subcommand_from {}", words[0]);
    const std::string first = words.size() == 1 ? "__fish_use_subcommand"
                                                : fmt::format("'{}; and not __fish_seen_subcommand_from {}'", seen,
                                                              names_behind(table, words[0]));
    if (words.size() == 2) seen += fmt::format("; and __fish_seen_subcommand_from {}", words[1]);
    if (!behind.empty()) seen += fmt::format("; and not __fish_seen_subcommand_from {}", behind);
    out += fmt::format("complete -c tern -n {} -f -a {} -d '{}'\n", first, words.back(), quoted(verb.summary, "\\'"));
    for (const OptionSpec* spec : options_of(table, verb.name)) {
      const auto values = values_of(*spec);
      std::string rest;
      if (!values.empty())
        rest = fmt::format(" -x -a '{}'", fmt::join(values, " "));
      else if (spec->type == OptionType::path)
        rest = " -r";
      else if (spec->type != OptionType::flag)
        rest = " -x";
      out +=
          fmt::format("complete -c tern -n '{}' -l {} -d '{}'{}\n", seen, spec->name, quoted(spec->help, "\\'"), rest);
    }
  }
  return out;
}

}  // namespace

std::string completion(const OptionTable& table, std::string_view shell) {
  if (shell == "bash") return bash_completion(table);
  if (shell == "zsh") return zsh_completion(table);
  if (shell == "fish") return fish_completion(table);
  throw Error(ErrorKind::usage, "completion: no script for shell '{}'; there are bash, zsh and fish{}", shell,
              did_you_mean(shell, {"bash", "zsh", "fish"}));
}

}  // namespace tern
