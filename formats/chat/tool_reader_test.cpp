// What a model writes as content and calls: the same however the text is cut into pieces.
#include "formats/chat/tool_reader.h"

#include <gtest/gtest.h>

#include <random>

namespace tern {
namespace {

const ToolSyntax kTagged{ToolForm::tagged, "<tool_call>\n{\"name\": \"",
                         "\", \"arguments\": ", "}\n</tool_call>\n<tool_call>\n{\"name\": \"", "}\n</tool_call>"};
const ToolSyntax kBare{ToolForm::bare, "{\"name\": \"", "\", \"parameters\": ", "", "}"};
const ToolSyntax kListed{ToolForm::listed, "[TOOL_CALLS] [{\"name\": \"", "\", \"arguments\": ", "}, {\"name\": \"",
                         "}]"};
const ToolSyntax kNamed{ToolForm::named, "[TOOL_CALLS]", "[ARGS]", "[TOOL_CALLS]", ""};

// "content | name(arguments) name(arguments)"
struct Read {
  std::string content, calls;
  friend bool operator==(const Read&, const Read&) = default;
};
void take(const std::vector<ToolPiece>& pieces, Read& read, int64_t& calls) {
  for (const ToolPiece& p : pieces) {
    if (p.kind == ToolPiece::Kind::content) {
      read.content += p.text;
    } else if (p.kind == ToolPiece::Kind::name) {
      EXPECT_EQ(p.call, calls++);
      read.calls += (read.calls.empty() ? "" : " ") + p.text + ":";
    } else {
      EXPECT_EQ(p.call, calls - 1);
      read.calls += p.text;
    }
  }
}
Read read_in(const ToolSyntax& syntax, const std::string& text, const std::vector<size_t>& cuts) {
  ToolReader reader(syntax, {"f", "get_weather"});
  Read read;
  int64_t calls = 0;
  size_t from = 0;
  for (const size_t cut : cuts)
    take(reader.push(std::string_view(text).substr(from, cut - from)), read, calls), from = cut;
  take(reader.push(std::string_view(text).substr(from)), read, calls);
  take(reader.finish(), read, calls);
  EXPECT_EQ(reader.num_calls(), calls);
  return read;
}

struct Case {
  const ToolSyntax* syntax;
  const char *text, *content, *calls;
};
const Case kCases[] = {
    {&kTagged, "Hello <tool> {\"name\": \"f\"}\n ", "Hello <tool> {\"name\": \"f\"}\n ", ""},
    {&kTagged,
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\\\"</tool_call>\", \"b\": [1, {}]}}\n</tool_call>", "",
     "f:{\"a\": \"}\\\"</tool_call>\", \"b\": [1, {}]}"},
    {&kTagged,
     "I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": "
     "\"get_weather\", "
     "\"arguments\": {\"q\": 1}}\n</tool_call>\n",
     "I look.", "f:{} get_weather:{\"q\": 1}"},
    {&kTagged, "<tool_call>{\"arguments\": {\"x\": [2]}, \"name\": \"f\"}</tool_call>then more", "then more",
     "f:{\"x\": [2]}"},
    {&kTagged, "<tool_call>{\"id\": [1, \"]\"], \"name\":\"f\" , \"arguments\":\"{\\\"x\\\": 1}\"}</tool_call>", "",
     "f:{\"x\": 1}"},
    {&kTagged, "<tool_call>{\"name\": \"f\"}</tool_call>", "", "f:{}"},
    {&kTagged, "<tool_call>{\"name\": \"f\", \"arguments\": null, \"z\": 0}</tool_call>", "", "f:{}"},
    {&kTagged, "<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call>",
     "<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call>", ""},
    {&kTagged, "<tool_call> what?", "<tool_call> what?", ""},
    {&kTagged, "<tool_call>\n{\"name\": \"f\", \"argu", "<tool_call>\n{\"name\": \"f\", \"argu", ""},
    {&kTagged, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 12", "", "f:{\"a\": 12"},
    {&kTagged, "a <tool_ca", "a <tool_ca", ""},
    {&kBare, " {\"name\": \"f\", \"parameters\": {\"a\": 1}}", "", "f:{\"a\": 1}"},
    {&kBare, "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"get_weather\", \"parameters\": {}}", "",
     "f:{} get_weather:{}"},
    {&kBare, "{\"name\": \"Bob\", \"age\": 3}", "{\"name\": \"Bob\", \"age\": 3}", ""},
    {&kBare, "Say {\"name\": \"f\", \"parameters\": {}}", "Say {\"name\": \"f\", \"parameters\": {}}", ""},
    {&kBare, "{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"a\": null}} ok", "ok", "f:{\"a\": null}"},
    {&kListed,
     "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"get_weather\", \"arguments\": {}, "
     "\"id\": \"123456789\"}]",
     "", "f:{\"a\": 1} get_weather:{}"},
    {&kListed, "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{}}]", "", "f:{}"},
    {&kListed, "See [1] and [TOOL_X", "See [1] and [TOOL_X", ""},
    {&kNamed, "Now:[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]get_weather[CALL_ID]123456789[ARGS]{}",
     "Now:", "f:{\"a\": 1} get_weather:{}"},
    {&kNamed, "[TOOL_CALLS]other[ARGS]{}", "[TOOL_CALLS]other[ARGS]{}", ""},
};

TEST(ToolReader, ReadsContentAndCallsHoweverTheTextIsCut) {
  std::mt19937 random(7);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.text);
    const std::string text = c.text;
    const Read want{c.content, c.calls};
    EXPECT_EQ(read_in(*c.syntax, text, {}).content, want.content);
    EXPECT_EQ(read_in(*c.syntax, text, {}).calls, want.calls);
    std::vector<size_t> each;
    for (size_t i = 1; i < text.size(); ++i) each.push_back(i);
    EXPECT_EQ(read_in(*c.syntax, text, each), want);
    for (int round = 0; round < 20; ++round) {
      std::vector<size_t> cuts;
      for (const size_t i : each)
        if (random() % 6 == 0) cuts.push_back(i);
      EXPECT_EQ(read_in(*c.syntax, text, cuts), want);
    }
  }
}

// Arguments go out while they are written, a name before them.
TEST(ToolReader, ArgumentsAreStreamed) {
  ToolReader reader(kTagged, {"f"});
  EXPECT_TRUE(reader.push("<tool_call>\n{\"name\": \"f\", \"argu").empty());
  using Kind = ToolPiece::Kind;
  EXPECT_EQ(reader.push("ments\": {\"a\":"),
            (std::vector<ToolPiece>{{Kind::name, 0, "f"}, {Kind::arguments, 0, "{\"a\":"}}));
  EXPECT_EQ(reader.push(" 1"), (std::vector<ToolPiece>{{Kind::arguments, 0, " 1"}}));
  EXPECT_EQ(reader.push("}}\n</tool"), (std::vector<ToolPiece>{{Kind::arguments, 0, "}"}}));
  EXPECT_TRUE(reader.push("_call>").empty());
  EXPECT_TRUE(reader.finish().empty());
}

// Anything at all comes out as it went in where no call is known.
TEST(ToolReader, RandomTextIsContentToTheByte) {
  std::mt19937 random(11);
  const char* parts[] = {
      "<tool_call>", "</tool_call>", "{", "}", "\"name\"",      ":", "\"g\"", " ", "\n", "[TOOL_CALLS]", "[ARGS]", "[",
      ",",           "\\",           "<", "x", "\"arguments\"", "\""};
  for (int round = 0; round < 3000; ++round) {
    const ToolSyntax* all[] = {&kTagged, &kBare, &kListed, &kNamed};
    ToolReader reader(*all[round % 4], {"f"});
    std::string text, got;
    const auto content = [&](const std::vector<ToolPiece>& pieces) {
      for (const ToolPiece& p : pieces) {
        EXPECT_EQ(p.kind, ToolPiece::Kind::content);
        got += p.text;
      }
    };
    for (uint32_t i = random() % 12; i > 0; --i) {
      const std::string part = parts[random() % std::size(parts)];
      text += part;
      content(reader.push(part));
    }
    content(reader.finish());
    EXPECT_EQ(got, text) << "form " << round % 4;
  }
}

}  // namespace
}  // namespace tern
