// tern generate --prompts: many texts at a time, each answered as if it were alone.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/e2e/in_folder_testing.h"
#include "tests/e2e/novels_testing.h"
#include "tests/e2e/train_process.h"

namespace tern {
namespace {

constexpr int kPrompts = 13;

class Prompts : public InFolder<Prompts> {
 protected:
  static void SetUpTestSuite() {
    make_root("prompts");
    std::string lines;
    for (int i = 0; i < kPrompts; ++i)
      lines +=
          fmt::format("{{\"prompt\": \"{}\", \"max_tokens\": {}, \"id\": {}}}\n", text(i), 3 + 7 * (i % 4), 100 + i);
    write("p.jsonl", lines);
  }
  static std::string text(int i) {
    return i == 5 ? ""
                  : std::string("She said that the sea was white and he went home")
                        .substr(0, static_cast<size_t>(3 + i * i % 44));
  }
  static std::vector<Json> rows(const std::string& lines) {
    std::vector<Json> all;
    for (size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1)
      all.push_back(parse_json(lines.substr(at, lines.find('\n', at) - at), "a line"));
    return all;
  }
  // Lines of a file that may not be there.
  static int rows_of(const std::string& path) {
    if (!real_io().stat(path)) return 0;
    const std::string text = real_io().read(path);
    return static_cast<int>(std::ranges::count(text, '\n'));
  }
  static std::string answer(const std::string& options) {
    const Outcome o = tern("generate " + kNovels + " --prompts p.jsonl " + options + " 2>errors");
    EXPECT_EQ(o.code, 0) << options << "\n" << real_io().read(root_ + "/errors");
    return o.text;
  }
};

TEST_F(Prompts, AreAnsweredInOrderAsEachAlone) {
  const std::vector<Json> all = rows(answer("--batch 5"));
  ASSERT_EQ(all.size(), static_cast<size_t>(kPrompts));
  for (int i = 0; i < kPrompts; ++i) {
    const Json& row = all[static_cast<size_t>(i)];
    EXPECT_EQ(row["id"], 100 + i);
    EXPECT_EQ(row["index"], i);
    const Outcome alone = tern(
        fmt::format("generate {} --prompt '{}' --max-tokens {} --json 2>/dev/null", kNovels, text(i), 3 + 7 * (i % 4)));
    const Json one = parse_json(alone.text, "alone");
    EXPECT_EQ(row["text"], one["text"]);
    EXPECT_EQ(row["finish_reason"], one["finish_reason"]);
    EXPECT_EQ(row["prompt_tokens"], one["prompt_tokens"]);
    EXPECT_EQ(row["tokens"], one["token_ids"].size());
  }
}

TEST_F(Prompts, HowManyRunAtATimeChangesNoByte) {
  for (const std::string& sampling :
       {std::string("--temperature 0.9 --seed 3"), std::string("--temperature 1.1 --samples 3 --top-k 20")}) {
    const std::string all = answer(sampling);
    EXPECT_EQ(rows(all).size(), static_cast<size_t>(kPrompts));
    for (const char* how : {"--batch 1", "--batch 2 --chunk 3", "--batch 100 --page 4", "--speculate ngram --batch 4"})
      EXPECT_EQ(answer(sampling + " " + how), all) << how;
  }
}

TEST_F(Prompts, GoOnWhereAnAnswersFileEnds) {
  answer("--temperature 0.7 --output whole.jsonl");
  const std::string whole = real_io().read(root_ + "/whole.jsonl");
  for (const size_t bytes : {size_t{0}, whole.find('\n') + 1, whole.size() / 2, whole.size() - 2, whole.size()}) {
    write("part.jsonl", whole.substr(0, bytes));
    answer("--temperature 0.7 --batch 3 --output part.jsonl");
    EXPECT_EQ(real_io().read(root_ + "/part.jsonl"), whole) << bytes;
  }
}

TEST_F(Prompts, AStopOrAKillLosesNothingThatWasWritten) {
  std::string lines;
  for (int i = 0; i < 30; ++i) lines += "\"once\"\n";
  write("long.jsonl", lines);
  for (const int signal : {SIGINT, SIGKILL}) {
    const std::string out = fmt::format("{}/stopped-{}.jsonl", root_, signal), log = root_ + "/log";
    std::vector<std::string> words{TERN_PROGRAM,          "generate", kNovels, "--prompts",
                                   root_ + "/long.jsonl", "--output", out};
    for (const char* word : {"--temperature", "0.7", "--ignore-eos", "--max-tokens", "100", "--batch", "2"})
      words.emplace_back(word);
    Child child(words, log);
    while (child.running() && rows_of(out) < 3) ::usleep(1000);
    child.signal(signal);
    const int code = child.wait();
    EXPECT_TRUE(code == (signal == SIGINT ? 75 : 128 + SIGKILL) || code == 0) << code << real_io().read(log);
    Child again(words, log);
    EXPECT_EQ(again.wait(), 0) << real_io().read(log);
    EXPECT_EQ(rows_of(out), 31);
  }
  std::set<std::string> texts;
  for (const Json& row : rows(real_io().read(fmt::format("{}/stopped-{}.jsonl", root_, SIGINT))))
    if (row.contains("text")) texts.insert(row["text"].get<std::string>());
  EXPECT_GT(texts.size(), 20U) << "each line draws for itself";
  EXPECT_EQ(real_io().read(fmt::format("{}/stopped-{}.jsonl", root_, SIGINT)),
            real_io().read(fmt::format("{}/stopped-{}.jsonl", root_, SIGKILL)));
}

TEST_F(Prompts, WhatTheyCannotMeanIsRefusedByName) {
  write("bad.jsonl", "\"a\"\n{\"text\": \"b\"}\n");
  const std::string plain = "generate " + kNovels + " --prompts ";
  expect_refusal(4, plain + "bad.jsonl", {"bad.jsonl: line 2: has no \"prompt\""});
  expect_refusal(4, plain + "none.jsonl", {"none.jsonl"});
  expect_refusal(2, plain + "p.jsonl --prompt a", {"--prompt: beside --prompts"});
  expect_refusal(2, plain + "p.jsonl --json", {"JSON lines already"});
  expect_refusal(2, "generate " + kNovels + " --prompt a --batch 2", {"--batch: says something of --prompts"});
  expect_refusal(2, plain + "p.jsonl --samples 2 --temperature 0", {"--samples 2"});
  write("long1.jsonl", "\"a\"\n\"" + std::string(9000, 'a') + "\"\n");
  expect_refusal(2, plain + "long1.jsonl", {"long1.jsonl: line 2: the prompt has"});
  answer("--output asked.jsonl");
  expect_refusal(2, plain + "p.jsonl --output asked.jsonl --seed 9 --temperature 1", {"holds results of another run"});
}

}  // namespace
}  // namespace tern
