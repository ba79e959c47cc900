#include "eval/task_file.h"

#include "base/error.h"
#include "formats/format_test_support.h"
#include "formats/mutations_testing.h"

namespace tern {
namespace {

constexpr const char* kChoice = R"({"prompt": "2+2=", "choices": [" 3", " 4"], "answer": 1})";
constexpr const char* kAnswer =
    R"({"id": "q7", "prompt": "2+2=", "answer": ["4", "four"], "stop": ["\n"], "max_tokens": 3})";

TEST(TaskFile, ReadsBothKinds) {
  const Task choice = parse_task(
      std::string("\n") + kChoice + "\r\n\n" + R"({"id": 9, "prompt": "", "choices": ["a", "b", "c"], "answer": 0})",
      "t");
  ASSERT_EQ(choice.items.size(), 2u);
  EXPECT_EQ(choice.kind, TaskKind::choice);
  EXPECT_EQ(choice.items[0].id, "2");
  EXPECT_EQ(choice.items[0].choices[1], " 4");
  EXPECT_EQ(choice.items[0].answer, 1);
  EXPECT_EQ(choice.items[1].id, "9");
  EXPECT_EQ(choice.items[1].line, 4);
  const Task answer = parse_task(kAnswer, "t");
  EXPECT_EQ(answer.kind, TaskKind::generate);
  EXPECT_EQ(answer.items[0].answers.size(), 2u);
  EXPECT_EQ(answer.items[0].max_tokens, 3);
}

TEST(TaskFileMalformed, EveryMistakeIsNamedWithItsLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no items"},
      {"\n\n", "no items"},
      {"{", "line 1"},
      {"[1]", "line 1: array, expected an object"},
      {R"({"prompt": "x"})", "answer: is missing"},
      {R"({"answer": "x"})", "prompt: is missing"},
      {R"({"prompt": 5, "answer": "x"})", "prompt: number, expected a text"},
      {R"({"promt": "x", "answer": "x"})", "unknown key 'promt'; did you mean 'prompt'?"},
      {R"({"question": "x", "answer": "x"})", "unknown key 'question'; rename it to 'prompt'; a task has id"},
      {R"({"prompt": "x", "choices": ["a", "b"], "label": 1})", "unknown key 'label'; rename it to 'answer'"},
      {R"({"prompt": "x", "prompt": "y", "answer": "x"})", "line 1"},
      {R"({"prompt": "x", "answer": []})", "an empty list"},
      {R"({"prompt": "x", "answer": [1]})", "holds number"},
      {R"({"prompt": "x", "answer": "y", "stop": "z"})", "stop: string, expected a list"},
      {R"({"prompt": "x", "answer": "y", "max_tokens": 0})", "max_tokens: 0, expected"},
      {R"({"prompt": "x", "answer": "y", "max_tokens": 1.5})", "max_tokens: 1.5, expected"},
      {R"({"prompt": "x", "choices": ["a"], "answer": 0})", "choices: 1 of them, expected 2"},
      {R"({"prompt": "x", "choices": "ab", "answer": 0})", "choices: string"},
      {R"({"prompt": "x", "choices": ["a", ""], "answer": 0})", "one is empty"},
      {R"({"prompt": "x", "choices": ["a", "b"], "answer": 2})", "answer: 2, expected a whole number from 0 to 1"},
      {R"({"prompt": "x", "choices": ["a", "b"], "answer": -1})", "answer: -1"},
      {R"({"prompt": "x", "choices": ["a", "b"], "answer": 18446744073709551615})", "answer: 18446744073709551615"},
      {R"({"prompt": "x", "choices": ["a", "b"], "answer": "a"})", "answer: string, expected a whole number"},
      {R"({"prompt": "x", "choices": ["a", "b"], "answer": 0, "stop": []})", "belongs to questions without choices"},
      {"{\"prompt\": \"\xff\", \"answer\": \"x\"}", "line 1"},
  };
  for (const auto& [text, what] : cases)
    EXPECT_TRUE(throws(ErrorKind::bad_file, what, [&] { parse_task(text, "t.jsonl"); })) << text;
  EXPECT_TRUE(throws(ErrorKind::bad_file, "line 2: has no choices, unlike line 1",
                     [&] { parse_task(std::string(kChoice) + "\n" + kAnswer, "t"); }));
  EXPECT_TRUE(throws(ErrorKind::bad_file, "id 'q7' stood there before",
                     [&] { parse_task(std::string(kAnswer) + "\n" + kAnswer, "t"); }));
}

TEST(TaskFileMutationsSlow, EveryMutationIsReadOrRefused) {
  survive_mutations({std::string(kChoice) + "\n" + kChoice, kAnswer},
                    [](const std::string& text) { parse_task(text, "mutated"); }, {.least_refused = 3000});
}

}  // namespace
}  // namespace tern
