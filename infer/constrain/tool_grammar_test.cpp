// Calls of tools as grammars: what they take, and that every text they take is read as calls that satisfy the schemas.
#include "infer/constrain/tool_grammar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "formats/chat/template.h"
#include "formats/chat/tool_reader.h"
#include "formats/chat/tool_templates_testing.h"
#include "infer/constrain/automaton_testing.h"
#include "infer/constrain/constraint.h"

namespace tern {
namespace {

const Json kPlace = parse_json(
    R"({"type":"object","properties":{"place":{"type":"string","maxLength":6},"days":{"$ref":"#/$defs/d"}},"required":["place"],
"$defs":{"d":{"type":"integer"}}})",
    "");
const Json kSwitch = parse_json(R"({"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"]})", "");
const std::vector<ToolSchema> kTools = {{"weather", &kPlace, "tools[0]"}, {"light", &kSwitch, "tools[1]"}};

std::vector<ToolSyntax> syntaxes() {
  std::vector<ToolSyntax> all;
  std::string why;
  for (const ToolTemplate* t : kToolTemplates) all.push_back(*tool_syntax(ChatTemplate(t->text, "t", {}), why));
  return all;
}

TEST(ToolGrammar, TakesCallsAsTheTemplateSpellsThem) {
  const ToolSyntax tagged = syntaxes()[0], bare = syntaxes()[1], listed = syntaxes()[2], named = syntaxes()[3];
  const std::string one = "<tool_call>\n{\"name\": \"light\", \"arguments\": {\"on\": true}}\n</tool_call>";
  const CallRules some{.several = true}, single{.several = false}, any{.several = true, .content = true};
  const std::tuple<const ToolSyntax*, CallRules, std::string, bool> cases[] = {
      {&tagged, some, one, true},
      {&tagged, some, one + "\n" + one, true},
      {&tagged, single, one + "\n" + one, false},
      {&tagged, some, "Well: " + one, false},
      {&tagged, any, "Well: " + one, true},
      {&tagged, any, "Well, 1 << 2 <tool_cal <<tool_ca", true},
      {&tagged, any, "<<tool_call" + one, true},
      {&tagged, any, "Well <tool_call> no", false},
      {&tagged, some, "<tool_call>\n{\"name\": \"light\", \"arguments\": {\"on\": 1}}\n</tool_call>", false},
      {&tagged, some, "<tool_call>\n{\"name\": \"dark\", \"arguments\": {\"on\": true}}\n</tool_call>", false},
      {&tagged, some,
       "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\":\"Rom\",\"days\":3}}\n</tool_call>", true},
      {&tagged, some, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"days\":3}}\n</tool_call>", false},
      {&bare, some, "{\"name\": \"light\", \"parameters\": {\"on\": false}}", true},
      {&bare, any, " \n{\"name\": \"light\", \"parameters\": {\"on\": false}}", true},
      {&bare, any, "  Well {", true},
      {&bare, any, "{\"a\": 1}", false},
      {&listed, some,
       "[TOOL_CALLS] [{\"name\": \"light\", \"arguments\": {\"on\": false}}, {\"name\": \"light\", \"arguments\": "
       "{\"on\": true}}]",
       true},
      {&listed, any, "[1] [TOOL_ [TOOL_CALLS] [{\"name\": \"light\", \"arguments\": {\"on\": false}}]", true},
      {&named, some, "[TOOL_CALLS]light[ARGS]{\"on\": true}[TOOL_CALLS]weather[ARGS]{\"place\": \"a\"}", true},
      {&named, single, "[TOOL_CALLS]light[ARGS]{\"on\": true}[TOOL_CALLS]weather[ARGS]{\"place\": \"a\"}", false},
  };
  for (const auto& [syntax, rules, text, is] : cases)
    EXPECT_EQ(takes(gbnf_of_calls(*syntax, kTools, rules), text), is) << text;
}

// A model of random weights: every byte that may follow is drawn alike.
TEST(ToolGrammar, RandomTextsAreCallsThatSatisfyTheirSchemas) {
  std::vector<std::string> bytes(256);
  for (size_t i = 1; i < 256; ++i) bytes[i] = std::string(1, static_cast<char>(i));
  const auto texts = std::make_shared<const TokenTexts>(token_texts(bytes));
  std::mt19937 random(5);
  for (const ToolSyntax& syntax : syntaxes())
    for (const CallRules rules : {CallRules{.several = true}, CallRules{.several = false}}) {
      const auto constraint =
          std::make_shared<Constraint>(texts, parse_gbnf(gbnf_of_calls(syntax, kTools, rules), "calls"));
      int64_t several = 0;
      for (int round = 0; round < 30; ++round) {
        ConstrainedText text(constraint);
        std::string written;
        while (!text.is_done()) {
          std::vector<float> scores(256, 0.0f);
          const int32_t end = 0;
          text.mask(scores, {&end, 1});
          std::vector<int32_t> may;
          for (int32_t i = 0; i < 256; ++i)
            if (!std::isinf(scores[static_cast<size_t>(i)])) may.push_back(i);
          const int32_t drawn = may[random() % may.size()];
          if (drawn == end) break;
          text.push(drawn);
          written += static_cast<char>(drawn);
          ASSERT_LT(written.size(), 100'000u);
        }
        ToolReader reader(syntax, {"weather", "light"});
        std::vector<ToolPiece> pieces = reader.push(written);
        for (ToolPiece& p : reader.finish()) pieces.push_back(p);
        std::string name;
        ASSERT_FALSE(pieces.empty());
        for (const ToolPiece& p : pieces) {
          ASSERT_NE(p.kind, ToolPiece::Kind::content) << written;
          if (p.kind == ToolPiece::Kind::name) {
            name = p.text;
            continue;
          }
          const Json arguments = parse_json(p.text, "arguments");
          EXPECT_TRUE(name == "light" ? arguments["on"].is_boolean() : arguments["place"].is_string()) << written;
        }
        several += reader.num_calls() > 1;
        if (!rules.several) { EXPECT_EQ(reader.num_calls(), 1); }
      }
      if (rules.several && !syntax.next.empty()) { EXPECT_GT(several, 0); }
    }
}

TEST(ToolGrammar, ASchemaThatIsNotSupportedIsNamed) {
  const Json odd = {{"type", "object"}, {"patternProperties", Json::object()}};
  try {
    gbnf_of_calls(syntaxes()[0], {{"f", &odd, "tools[3].function.parameters"}}, {});
    ADD_FAILURE() << "taken";
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("tools[3].function.parameters"), std::string::npos) << what;
    EXPECT_NE(what.find("patternProperties"), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace tern
