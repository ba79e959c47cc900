#include "infer/constrain/tool_grammar.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "infer/constrain/json_schema.h"

namespace tern {
namespace {

// Text in which `mark` does not stand, then perhaps what follows it in `behind`. The mark's first character comes in it
// once, so a text that is not the mark any more may only be the beginning of another at that character.
std::string content_rules(std::string_view mark, const std::string& behind) {
  const auto one = [](char c) {
    return c == '[' || c == ']' || c == '\\' || c == '^' ? fmt::format("\\{}", c) : std::string(1, c);
  };
  const std::string first = one(mark[0]);
  std::string rules =
      fmt::format("content ::= \"\" | [^{}] content | {} mark1\n", first, gbnf_literal(mark.substr(0, 1)));
  for (size_t i = 1; i + 1 < mark.size(); ++i)
    rules += fmt::format("mark{} ::= \"\" | [^{}{}] content | {} mark1 | {} mark{}\n", i, first, one(mark[i]),
                         gbnf_literal(mark.substr(0, 1)), gbnf_literal(mark.substr(i, 1)), i + 1);
  const size_t last = mark.size() - 1;
  return rules + fmt::format("mark{} ::= \"\" | [^{}{}] content | {} mark1 | {} {}\n", last, first, one(mark[last]),
                             gbnf_literal(mark.substr(0, 1)), gbnf_literal(mark.substr(last)), behind);
}

}  // namespace

std::string gbnf_of_calls(const ToolSyntax& syntax, const std::vector<ToolSchema>& tools, CallRules allowed) {
  static const Json kObject = {{"type", "object"}};
  std::vector<NamedSchema> schemas;
  std::string call;
  for (const ToolSchema& tool : tools) {
    const std::string rule = fmt::format("arguments{}", schemas.size());
    call += fmt::format("{}{} {}", call.empty() ? "" : " | ", gbnf_literal(tool.name + syntax.middle), rule);
    schemas.push_back({rule, tool.parameters ? tool.parameters : &kObject, tool.place});
  }
  std::string rules = gbnf_of_schemas(schemas);
  const std::string more =
      !allowed.several || syntax.next.empty() ? "" : fmt::format(" ({} call)*", gbnf_literal(syntax.next));
  const std::string last = syntax.last.empty() ? "" : " " + gbnf_literal(syntax.last);
  rules += fmt::format("call ::= {}\n", call);
  if (!allowed.content) return rules + fmt::format("root ::= {} call{}{}\n", gbnf_literal(syntax.first), more, last);
  if (syntax.form == ToolForm::bare)
    return rules + fmt::format("root ::= \"\" | [ \\n\\r\\t] root | [^{{ \\n\\r\\t] .* | {} call{}\n",
                               gbnf_literal(syntax.first), last);
  const std::string_view mark = syntax.mark();
  rules += fmt::format("calls ::= {} call{}{}\n", gbnf_literal(std::string_view(syntax.first).substr(mark.size())),
                       more, last);
  return rules + content_rules(mark, "calls") + "root ::= content\n";
}

}  // namespace tern
