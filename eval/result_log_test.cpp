#include "eval/result_log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/memory_io.h"

namespace tern {
namespace {

const Json kQuestion = {{"model", "m"}, {"data", "d"}};

TEST(ResultLog, GoesOnBehindTheLastWholeLineAndSaysWhatItDropped) {
  MemoryIo io;
  {
    ResultLog log(io, "out/results.jsonl", kQuestion);
    EXPECT_TRUE(log.notes().empty());
    log.append({{"loss", 1.5}});
  }
  io.open_append("out/results.jsonl")->append("{\"loss\":2");
  {
    ResultLog log(io, "out/results.jsonl", kQuestion);
    ASSERT_EQ(log.done().size(), 1U);
    EXPECT_EQ(log.done()[0], Json({{"loss", 1.5}}));
    EXPECT_EQ(log.notes(), std::vector<std::string>{"out/results.jsonl: its last line was cut short and is dropped"});
    log.append({{"loss", 3}});
  }
  EXPECT_EQ(ResultLog(io, "out/results.jsonl", kQuestion).done().size(), 2U) << "the sums go on";
  EXPECT_TRUE(ResultLog(io, "out/results.jsonl", kQuestion).notes().empty()) << "once";
}

TEST(ResultLog, SeesEveryChangeOfALineAndEveryLineThatIsMissing) {
  MemoryIo io;
  {
    ResultLog log(io, "r.jsonl", kQuestion);
    for (const double loss : {1.25, 2.5, 3.75}) log.append({{"loss", loss}, {"tokens", 8}});
  }
  const std::string whole = io.read("r.jsonl");
  const auto opens = [&](const std::string& text) {
    io.create("r.jsonl")->append(text);
    try {
      ResultLog(io, "r.jsonl", kQuestion);
    } catch (const Error&) { return false; }
    return true;
  };
  EXPECT_TRUE(opens(whole));
  for (size_t i = 0; i + 1 < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] ^= 1;
    EXPECT_FALSE(opens(changed)) << "byte " << i << " '" << whole[i] << "'";
  }
  const size_t second = whole.find('\n') + 1, third = whole.find('\n', second) + 1;
  EXPECT_FALSE(opens(whole.substr(0, second) + whole.substr(third))) << "a line taken out";
  EXPECT_TRUE(opens(whole.substr(0, third))) << "the lines behind can be computed again";
  EXPECT_FALSE(opens("{\"loss\":1}\n"));
}

TEST(ResultLog, HasOneWriterAtATime) {
  MemoryIo io;
  const ResultLog first(io, "r.jsonl", kQuestion);
  EXPECT_THROW(ResultLog(io, "r.jsonl", kQuestion), Error);
}

TEST(ResultLog, AnswersOneQuestionOnly) {
  MemoryIo io;
  { const ResultLog log(io, "results.jsonl", kQuestion); }
  EXPECT_THROW(ResultLog(io, "results.jsonl", {{"model", "m"}, {"data", "other"}}), Error);
}

}  // namespace
}  // namespace tern
