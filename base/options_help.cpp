// Help for people, made from the table.
#include <algorithm>

#include <fmt/format.h>

#include "base/options.h"
#include "base/text.h"

namespace tern {
namespace {

std::string value_name(const OptionSpec& spec) {
  switch (spec.type) {
    case OptionType::flag:
      return "";
    case OptionType::toggle:
      return "on|off";
    case OptionType::choice:
      return fmt::format("{}", fmt::join(spec.choices, "|"));
    default:
      break;
  }
  if (!spec.unit.empty()) return std::string(spec.unit);
  switch (spec.type) {
    case OptionType::integer:
      return "N";
    case OptionType::real:
      return "X";
    case OptionType::count:
      return "N";
    case OptionType::bytes:
      return "SIZE";
    case OptionType::seconds:
      return "TIME";
    case OptionType::path:
      return "FILE";
    default:
      return "TEXT";
  }
}

std::string usage_line(const VerbSpec& verb, bool has_options) {
  std::string line = fmt::format("tern {}", verb.name);
  for (const PositionalSpec& positional : verb.positionals)
    line += positional.required ? fmt::format(" {}", positional.name) : fmt::format(" [{}]", positional.name);
  if (has_options) line += " [options]";
  return verb.command.empty() ? line : fmt::format("{} -- {}", line, verb.command);
}

void append_row(std::string& out, std::string_view left, std::string_view right, size_t column, size_t width) {
  std::string line = fmt::format("  {}", left);
  // A long list of choices goes on in the next line.
  for (size_t cut = 0; line.size() > width && (cut = line.rfind('|', width - 1)) != std::string::npos;) {
    out += line.substr(0, cut + 1) + "\n";
    line = std::string(6, ' ') + line.substr(cut + 1);
  }
  bool fresh = true;
  if (line.size() + 2 > column) {
    out += line + "\n";
    line.clear();
  }
  for (const std::string& part : wrap_text(right, std::max<size_t>(width - column, 30))) {
    if (!fresh) line.clear();
    fresh = false;
    line.append(column - line.size(), ' ');
    out += line + part + "\n";
    line.clear();
  }
}

}  // namespace

std::string help_overview(const OptionTable& table) {
  std::string out =
      "tern: train, measure and run transformer models on the hardware you have\n\n"
      "Usage: tern VERB [arguments] [options]\n\nVerbs\n";
  for (const VerbSpec& verb : table.verbs) append_row(out, verb.name, verb.summary, 18, 100);
  out +=
      "\n`tern help VERB` or `tern VERB --help` shows a verb's options, `tern help TOPIC` explains exit-codes,\n"
      "environment, files, recipes or updates. Start with `tern demo`: two minutes, no GPU, no download.\n";
  return out;
}

std::string help_verb(const OptionTable& table, const VerbSpec& verb, int width) {
  const std::vector<const OptionSpec*> rows = options_of(table, verb.name);
  std::string out = fmt::format("tern {}: {}\n\nUsage: {}\n", verb.name, verb.summary, usage_line(verb, !rows.empty()));
  const auto columns = static_cast<size_t>(width);
  if (!verb.details.empty()) {
    out += "\n";
    for (const std::string& line : wrap_text(verb.details, columns)) out += line + "\n";
  }
  if (!verb.positionals.empty()) {
    out += "\nArguments\n";
    for (const PositionalSpec& positional : verb.positionals)
      append_row(out, positional.name, positional.help, 28, columns);
  }
  if (!rows.empty()) out += "\nOptions\n";
  for (const OptionSpec* spec : rows) {
    const std::string value = value_name(*spec);
    const std::string fallback = spec->type == OptionType::flag ? ""
                                 : spec->fallback.empty()       ? ""
                                                                : fmt::format("default {}, ", spec->fallback);
    const std::string letter = spec->letter == '\0' ? "" : fmt::format(", -{} {}", spec->letter, value);
    append_row(out, fmt::format("--{}{}{}{}", spec->name, value.empty() ? "" : " ", value, letter),
               fmt::format("{} ({}{})", spec->help, fallback, env_name(*spec)), 28, columns);
  }
  if (!rows.empty()) append_row(out, "--help", "this page", 28, columns);
  if (!verb.examples.empty()) out += "\nExamples\n";
  for (const auto& [line, what] : verb.examples) out += fmt::format("  # {}\n  {}\n", what, line);
  return out;
}

std::string markdown_table(const OptionTable& table) {
  std::string out;
  const auto cell = [](std::string_view text) { return replace_all(std::string(text), "|", "\\|"); };
  for (const VerbSpec& verb : table.verbs) {
    const std::vector<const OptionSpec*> rows = options_of(table, verb.name);
    out += fmt::format("### tern {}\n\n{}.\n\n`{}`\n\n", verb.name, verb.summary, usage_line(verb, !rows.empty()));
    if (rows.empty()) continue;
    out += "| option | default | environment | meaning |\n|---|---|---|---|\n";
    for (const OptionSpec* spec : rows) {
      const std::string value = value_name(*spec);
      out += fmt::format("| `--{}{}{}` | {} | `{}` | {} |\n", spec->name, value.empty() ? "" : " ", cell(value),
                         spec->fallback.empty() ? "" : fmt::format("`{}`", cell(spec->fallback)), env_name(*spec),
                         cell(spec->help));
    }
    out += "\n";
  }
  return out;
}

// roff: a line must not start with '.' or ''', and '-' must be escaped to stay a plain minus.
std::string man_page(const OptionTable& table, std::string_view version) {
  const auto roff = [](std::string_view text) {
    std::string line = replace_all(replace_all(std::string(text), "\\", "\\e"), "-", "\\-");
    return line.starts_with('.') || line.starts_with('\'') ? "\\&" + line : line;
  };
  std::string out = fmt::format(
      ".TH TERN 1 \"\" \"tern {}\" \"User Commands\"\n.SH NAME\n"
      "tern \\- train, measure and run transformer models on the hardware you have\n"
      ".SH SYNOPSIS\n.B tern\nVERB [arguments] [options]\n.SH VERBS\n",
      version);
  for (const VerbSpec& verb : table.verbs) {
    const std::vector<const OptionSpec*> rows = options_of(table, verb.name);
    out +=
        fmt::format(".SS {}\n{}.\n.PP\n.B {}\n", verb.name, roff(verb.summary), roff(usage_line(verb, !rows.empty())));
    if (!verb.details.empty()) out += fmt::format(".PP\n{}\n", roff(verb.details));
    for (const PositionalSpec& positional : verb.positionals)
      out += fmt::format(".TP\n.I {}\n{}\n", positional.name, roff(positional.help));
    for (const OptionSpec* spec : rows) {
      const std::string value = value_name(*spec);
      out += fmt::format(".TP\n.BR \\-\\-{}{}\n{}", roff(spec->name),
                         value.empty() ? "" : fmt::format(" \" \" \"{}\"", roff(value)), roff(spec->help));
      out += fmt::format(" ({}{})\n",
                         spec->fallback.empty() || spec->type == OptionType::flag
                             ? ""
                             : fmt::format("default {}, ", roff(spec->fallback)),
                         env_name(*spec));
    }
    for (const auto& [line, what] : verb.examples)
      out += fmt::format(".PP\n{}:\n.PP\n.nf\n    {}\n.fi\n", roff(what), roff(line));
  }
  out +=
      ".SH EXIT STATUS\n0 success; 1 bug or other; 2 usage or configuration; 3 does not fit; 4 bad file; 5 peer lost;\n"
      "6 no valid checkpoint; 75 interrupted, the same command goes on; 130 and 143 signals.\n"
      ".SH ENVIRONMENT\nEvery option can be given as the variable named beside it.\n";
  for (const EnvironmentSpec& variable : table.environment)
    out += fmt::format(".TP\n.B {}\n{}\n", variable.name, roff(variable.help));
  return out;
}

}  // namespace tern
