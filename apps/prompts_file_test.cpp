#include "apps/prompts_file.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tern {
namespace {

TEST(PromptsFile, ReadsTextsAndObjectsAndSaysWhatItPassesOver) {
  const PromptsFile file = parse_prompts(
      "\"one\\n\"\n\n{\"prompt\": \"\", \"id\": 7, \"answer\": 1}\r\n{\"max_tokens\": 3, \"prompt\": \"z\", \"id\": "
      "\"a\", "
      "\"tags\": [], \"answer\": 2}",
      "p.jsonl");
  ASSERT_EQ(file.lines.size(), 3U);
  EXPECT_EQ(file.lines[0].prompt, "one\n");
  EXPECT_EQ(file.lines[0].id, "");
  EXPECT_EQ(file.lines[1].prompt, "");
  EXPECT_EQ(file.lines[1].id, "7");
  EXPECT_EQ(file.lines[1].number, 3);
  EXPECT_FALSE(file.lines[1].max_tokens);
  EXPECT_EQ(file.lines[2].id, "\"a\"");
  EXPECT_EQ(file.lines[2].max_tokens, 3);
  EXPECT_EQ(file.passed_over, (std::vector<std::string>{"answer", "tags"}));
}

std::string error_of(const std::string& text) {
  try {
    parse_prompts(text, "p.jsonl");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file);
    return e.what();
  }
  return "none";
}

TEST(PromptsFile, RefusesByLineAndKey) {
  EXPECT_EQ(error_of("\n \n").find("p.jsonl: no prompts"), 0U);
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"\"a\"\n[1]", "p.jsonl: line 2: array, expected a text"},
           {"{\"prompt\": 1}", "line 1: \"prompt\" is number"},
           {"{\"text\": \"a\"}", "line 1: has no \"prompt\""},
           {"{\"messages\": []}", "line 1: has \"messages\"; tern generate continues"},
           {"{\"prompt\": \"a\", \"id\": 1.5}", "\"id\" is number, expected a text or a whole number"},
           {"{\"prompt\": \"a\", \"max_tokens\": 0}", "\"max_tokens\" is 0"},
           {"{\"prompt\": \"a\", \"max_tokens\": \"9\"}", "\"max_tokens\" is \"9\""},
           {"\"a\"\n{\"prompt\"", "p.jsonl: line 2"}})
    EXPECT_NE(error_of(text).find(words), std::string::npos) << error_of(text);
}

}  // namespace
}  // namespace tern
