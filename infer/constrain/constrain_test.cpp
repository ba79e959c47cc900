// Grammars, schemas and masks, without a model.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "infer/constrain/automaton_testing.h"
#include "infer/constrain/constraint.h"
#include "infer/constrain/json_schema.h"

namespace tern {
namespace {

std::string schema_of(const std::string& text) { return gbnf_of_schema(parse_json(text, "test"), "schema.json"); }
std::string refusal(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "";
}

TEST(Gbnf, TakesWhatItSaysAndNothingElse) {
  const struct {
    const char *grammar, *text;
    bool is;
  } cases[] = {
      {"root ::= \"a\" | \"bc\"", "bc", true},
      {"root ::= \"a\" | \"bc\"", "b", false},
      {"root ::= [0-9]+ (\",\" [0-9]+)* # numbers\n", "1,22,3", true},
      {"root ::= [0-9]+ (\",\" [0-9]+)* # numbers\n", "1,,3", false},
      {"root ::= item{2,3}\nitem ::= \"x\" | \"y\"", "xyx", true},
      {"root ::= item{2,3}\nitem ::= \"x\" | \"y\"", "xyxx", false},
      {"root ::= item{2}\nitem ::= \"x\"", "x", false},
      {"root ::= \"x\"{2,}", "xxxxx", true},
      {"root ::= \"(\" root \")\" | \"\"", "((()))", true},
      {"root ::= \"(\" root \")\" | \"\"", "((())", false},
      {"root ::= one\n  | two\none ::= \"1\"\ntwo ::= \"2\"", "2", true},
      {"root ::= [^a-z\\n]*", "ÄÖ€😀 1", true},
      {"root ::= [^a-z\\n]*", "b", false},
      {"root ::= [à-ý]", "é", true},
      {"root ::= [à-ý]", "ÿ", false},
      {"root ::= .", "😀", true},
      {"root ::= .", "\xf0\x9f\x98", false},
      {"root ::= .", "\xed\xa0\x80", false},  // a surrogate
      {"root ::= .", "\xc0\x80", false},      // overlong
      {"root ::= \"\\x41\\u00e9\\U0001F600\\\"\"", "Aé😀\"", true},
      {"root ::= ((\"a\"*)*)*", "aaaa", true},
  };
  for (const auto& c : cases) EXPECT_EQ(takes(c.grammar, c.text), c.is) << c.grammar << " : " << c.text;
}

// Every code point, by classes whose ends lie everywhere between the lengths of UTF-8.
TEST(Gbnf, AClassIsItsCodePoints) {
  const uint32_t ends[] = {0, 0x41, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x3abcd, 0x10ffff};
  for (const uint32_t low : ends)
    for (const uint32_t high : ends) {
      if (high < low) continue;
      Automaton a(parse_gbnf(fmt::format("root ::= [\\U{:08x}-\\U{:08x}]", low, high), "class"));
      for (const uint32_t end : ends)
        for (const int64_t step : {-1, 0, 1}) {
          const int64_t code = int64_t{end} + step;
          if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) continue;
          std::string text;
          const auto c = static_cast<uint32_t>(code);
          if (c < 0x80)
            text += static_cast<char>(c);
          else if (c < 0x800)
            text += static_cast<char>(0xc0 | c >> 6), text += static_cast<char>(0x80 | (c & 63));
          else if (c < 0x10000)
            text += static_cast<char>(0xe0 | c >> 12), text += static_cast<char>(0x80 | (c >> 6 & 63)),
                text += static_cast<char>(0x80 | (c & 63));
          else
            text += static_cast<char>(0xf0 | c >> 18), text += static_cast<char>(0x80 | (c >> 12 & 63)),
                text += static_cast<char>(0x80 | (c >> 6 & 63)), text += static_cast<char>(0x80 | (c & 63));
          EXPECT_EQ(takes(a, text), low <= c && c <= high) << low << "-" << high << ": " << c;
        }
    }
}

TEST(Gbnf, RefusesByNameWhatItCannotRun) {
  const std::pair<const char*, const char*> cases[] = {
      {"root ::= a \"x\"\na ::= root | \"y\"", "left recursion"},
      {"root ::= b root\nb ::= \"\"", "left recursion"},
      {"root ::= missing", "'missing'"},
      {"start ::= \"a\"", "'root'"},
      {"root ::= \"a\" root", "no text can ever satisfy"},
      {"root ::= []", "no text can ever satisfy"},
      {"root ::= \"a", "no end"},
      {"root ::= (\"a\"", "expected )"},
      {"root ::= \"\\q\"", "no escape"},
      {"root ::= \"a\"\nroot ::= \"b\"", "twice"},
      {"root ::= \"a\"{3,2}", "ends before it begins"},
      {"root ::= (\"abc\"{9000}){9000}", "states"},
      {"root ::= \"\\ud800\"", "no character"},
      {"root ::= <think> .*", "token in <"},
      {"root ::= \"a\"?*+?*+?*+", "repetitions of each other"},
  };
  for (const auto& [grammar, word] : cases)
    EXPECT_NE(refusal([&] { parse_gbnf(grammar, "g.gbnf"); }).find(word), std::string::npos) << grammar;
  const std::string deep = "root ::= " + std::string(5000, '(') + "\"a\"" + std::string(5000, ')');
  EXPECT_NE(refusal([&] { parse_gbnf(deep, "g.gbnf"); }).find("groups"), std::string::npos);
}

// Each rule is known to end once the one that it calls is; in whatever order they stand, that takes one pass over them. Time is
// what a request's grammar takes of the thread that serves all.
TEST(Gbnf, RulesInAnyOrderTakeOnePass) {
  constexpr int kRules = 40'000;
  std::vector<int> order(kRules);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  std::string gbnf = fmt::format("root ::= r{}\n", order[0]);
  std::vector<int> after(kRules, -1);
  for (size_t i = 0; i + 1 < order.size(); ++i) after[static_cast<size_t>(order[i])] = order[i + 1];
  for (int r = 0; r < kRules; ++r)
    gbnf += after[static_cast<size_t>(r)] < 0 ? fmt::format("r{} ::= \"a\"\n", r)
                                              : fmt::format("r{} ::= \"a\" r{}\n", r, after[static_cast<size_t>(r)]);
  const std::clock_t begin = std::clock();
  Automaton a(parse_gbnf(gbnf, "chain"));
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 1.5);
  EXPECT_TRUE(takes(a, std::string(kRules, 'a')));
  EXPECT_FALSE(takes(a, std::string(kRules - 1, 'a')));
}

struct SchemaCase {
  const char* schema;
  std::vector<const char*> valid, invalid;
};
const SchemaCase kSchemas[] = {
    {R"({"type":"integer"})", {"0", "-12"}, {"01", "1.5", "\"1\"", "", "-"}},
    {R"({"type":"number"})", {"0", "-1.25", "3e10", "1E-5"}, {".5", "1.", "+1"}},
    {R"({"type":["string","null"]})",
     {"\"a\"", "null", R"("\"\\\n\u00e9")"},
     {"nul", "\"a", R"("\ud800")", R"("\x")", "\"a\nb\""}},
    {R"({"type":"string","minLength":1,"maxLength":2})", {"\"é\"", "\"ab\"", R"("a\n")"}, {"\"\"", "\"abc\""}},
    {R"({"enum":["red","green",3,null]})", {"\"red\"", "3", "null"}, {"\"re\"", "\"blue\"", "33"}},
    {R"({"const":{"a":[1,"x"]}})", {R"({"a":[1,"x"]})"}, {R"({"a":[1,"y"]})"}},
    {R"({"type":"string","enum":["a",1]})", {"\"a\""}, {"1"}},
    {R"({"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":2})",
     {"[true]", "[true,false]", "[true, false]"},
     {"[]", "[1]", "[true,]", "[true,true,true]"}},
    {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})",
     {"[]", "[1]", "[1,\"a\"]"},
     {"[\"a\"]", "[1,\"a\",2]"}},
    {R"({"type":"array","prefixItems":[{"type":"integer"}],"minItems":2})", {"[1,2]", "[1,null,3]"}, {"[]", "[1]"}},
    {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
    {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{}},"required":["b"],"additionalProperties":false})",
     {R"({"b":"x"})", R"({"a":1,"b":"x"})", R"({"a": 1, "b": "x", "c": [null]})"},
     {"{}", R"({"a":1})", R"({"b":1})", R"({"b":"x","d":1})", R"({"b":"x",})", R"({,"b":"x"})"}},
    {R"({"type":"object","properties":{"ab":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
     {R"({"ab":1,"a":"x","abc":"y","":"z"})", "{}", R"({"b":"x"})"},
     {R"({"ab":"x"})", R"({"ab":1,"ab":"x"})", R"({"x":1})", R"({"\u0061b":"x"})"}},
    {R"({"type":"object","required":["a"],"additionalProperties":{"type":"integer"}})",
     {R"({"a":1})", R"({"a":1,"b":2})"},
     {"{}", R"({"b":2})"}},
    {R"({"type":"object"})", {"{}", R"({"a":{"b":[1,{"c":null}]}})"}, {"[]", "{1:2}"}},
    {R"({"anyOf":[{"type":"integer"},{"type":"array","items":{"$ref":"#"}}]})",
     {"1", "[1,[2,[]]]"},
     {"\"a\"", "[1,[]"}},
    {R"({"oneOf":[{"type":"string"},{"$ref":"#/$defs/n"}],"$defs":{"n":{"type":"integer"}}})",
     {"\"a\"", "1"},
     {"null"}},
    {R"({"allOf":[{"$ref":"#/definitions/a~1b"}],"definitions":{"a/b":{"const":"x"}}})", {"\"x\""}, {"\"y\""}},
    {R"({"properties":{"a":{"type":"integer"}}})", {"1", "\"x\"", R"({"a":1})", "[1]"}, {R"({"a":"x"})"}},
    {R"({"type":"object","properties":{"a/properties/b":{"const":1},"a":{"properties":{"b":{"const":2}},"type":"object"}}})",
     {R"({"a/properties/b":1,"a":{"b":2}})"},
     {R"({"a":{"b":1}})"}},
};

TEST(JsonSchema, ValidDocumentsPassAndInvalidOnesFail) {
  for (const SchemaCase& c : kSchemas) {
    Automaton a(parse_gbnf(schema_of(c.schema), "schema"));
    for (const char* text : c.valid) EXPECT_TRUE(takes(a, text)) << c.schema << " : " << text;
    for (const char* text : c.invalid) EXPECT_FALSE(takes(a, text)) << c.schema << " : " << text;
  }
}

TEST(JsonSchema, AKeywordThatIsNotSupportedIsRefusedByName) {
  for (const char* key :
       {"pattern", "format", "minimum", "multipleOf", "uniqueItems", "contains", "not", "if", "patternProperties",
        "propertyNames", "minProperties", "dependentRequired", "$dynamicRef", "$anchor", "unevaluatedItems", "oops"}) {
    const std::string error =
        refusal([&] { schema_of(fmt::format(R"({{"type":"object","properties":{{"x":{{"{}":1}}}}}})", key)); });
    EXPECT_NE(error.find(fmt::format("\"{}\"", key)), std::string::npos) << error;
    EXPECT_NE(error.find("/properties/x"), std::string::npos) << error;
  }
  const std::pair<const char*, const char*> cases[] = {{R"({"$ref":"http://a.b/c"})", "$ref"},
                                                       {R"({"$ref":"#/$defs/none"})", "$ref"},
                                                       {R"({"type":"text"})", "type"},
                                                       {R"({"maxLength":-1})", "maxLength"},
                                                       {R"({"allOf":[{},{}]})", "allOf"},
                                                       {R"({"oneOf":[{"type":"number"},{"type":"integer"}]})", "oneOf"},
                                                       {R"({"anyOf":[{}],"type":"string"})", "type"},
                                                       {R"({"type":"array","items":[{}]})", "prefixItems"},
                                                       {R"("a")", "object"}};
  for (const auto& [schema, word] : cases)
    EXPECT_NE(refusal([&] { schema_of(schema); }).find(word), std::string::npos) << schema;
  for (const char* none : {"false", R"({"$ref":"#"})", R"({"enum":[]})",
                           R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})"})
    EXPECT_NE(refusal([&] { parse_gbnf(schema_of(none), "schema"); }), "") << none;
}

// All bytes, and pieces of JSON of several bytes; the last id ends.
std::vector<std::string> some_texts() {
  std::vector<std::string> texts;
  for (int b = 0; b < 256; ++b) texts.emplace_back(1, static_cast<char>(b));
  for (const char* piece : {"{\"", "\":", "\",\"", "\"}", "true", "null", " \"", "12", "], [", "[[", "a\"", "\\u", "é",
                            "\xf0\x9f", "ab", "}}"})
    texts.emplace_back(piece);
  texts.emplace_back();
  return texts;
}

// Mask against the plain twin: each token read byte by byte. Random texts under each schema; what is written is valid.
TEST(Constraint, MasksAreThePlainTwinsAndRandomTextsAreValid) {
  const std::vector<std::string> texts = some_texts();
  const auto shared = std::make_shared<const TokenTexts>(token_texts(texts));
  const auto end = static_cast<int32_t>(texts.size()) - 1;
  std::mt19937 random(20261123);
  int ended = 0;
  for (const SchemaCase& c : kSchemas) {
    const std::string gbnf = schema_of(c.schema);
    Automaton plain(parse_gbnf(gbnf, "schema"));
    const auto constraint = std::make_shared<Constraint>(shared, parse_gbnf(gbnf, "schema"));
    for (int round = 0; round < 5; ++round) {
      ConstrainedText text(constraint);
      std::string written;
      for (int step = 0; step < 300; ++step) {
        std::vector<float> scores(texts.size(), 0.0f);
        text.mask(scores, {&end, 1});
        int32_t state = plain.start();
        for (const char b : written) state = plain.next(state, static_cast<uint8_t>(b));
        ASSERT_EQ(std::isfinite(scores.back()), plain.accepts(state)) << written;
        std::vector<int32_t> may;
        for (size_t id = 0; id < texts.size(); ++id) {
          int32_t at = state;
          for (const char b : texts[id])
            if (at != Automaton::kDead) at = plain.next(at, static_cast<uint8_t>(b));
          const bool follows = id == texts.size() - 1 ? plain.accepts(state) : at != Automaton::kDead;
          ASSERT_EQ(std::isfinite(scores[id]), follows) << c.schema << " : " << written << " : " << texts[id];
          if (follows) may.push_back(static_cast<int32_t>(id));
        }
        ASSERT_FALSE(may.empty());
        const bool wants_end = step > 20 && plain.accepts(state);
        const int32_t id = wants_end ? end : may[random() % may.size()];
        if (id == end) break;
        text.push(id);
        written += texts[static_cast<size_t>(id)];
        if (text.is_done()) break;
      }
      if (!text.may_end()) continue;
      ++ended;
      EXPECT_NO_THROW(parse_json(written, "written")) << c.schema << " : " << written;
    }
  }
  EXPECT_GT(ended, 30);
}

TEST(Constraint, StatesThatWereForgottenAreFoundAgain) {
  const auto shared = std::make_shared<const TokenTexts>(token_texts(some_texts()));
  const auto constraint =
      std::make_shared<Constraint>(shared, parse_gbnf("root ::= \"[\" [a-z]{0,60000} \"]\"", "long"));
  ConstrainedText text(constraint);
  std::vector<float> scores(some_texts().size());
  text.push('[');
  for (int i = 0; i < 9000; ++i) {
    text.mask(scores, {});
    text.push('a' + i % 26);
  }
  text.push(']');
  EXPECT_TRUE(text.is_done());
}

TEST(Constraint, AVocabularyThatCannotGoOnIsAnError) {
  const auto shared = std::make_shared<const TokenTexts>(token_texts({"a", "b"}));
  ConstrainedText text(std::make_shared<Constraint>(shared, parse_gbnf("root ::= \"ac\"", "g")));
  std::vector<float> scores(2);
  text.mask(scores, {});
  text.push(0);
  EXPECT_NE(refusal([&] { text.mask(scores, {}); }).find("vocabulary"), std::string::npos);
}

TEST(Constraint, ScoresThatAreNoNumbersStay) {
  const auto shared = std::make_shared<const TokenTexts>(token_texts({"a", "b"}));
  ConstrainedText text(std::make_shared<Constraint>(shared, parse_gbnf("root ::= \"a\"", "g")));
  std::vector<float> scores = {0, std::numeric_limits<float>::quiet_NaN()};
  text.mask(scores, {});
  EXPECT_TRUE(std::isnan(scores[1]));
}

TEST(Automaton, AGrammarThatCanBeReadInTooManyWaysIsRefused) {
  std::string many = "root ::= ";
  for (int i = 0; i < 5000; ++i) many += "\"ab\" | ";
  EXPECT_NE(refusal([&] { Automaton(parse_gbnf(many + "\"ab\"", "g")).start(); }).find("ways"), std::string::npos);
}

}  // namespace
}  // namespace tern
