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
  ResultLog log(io, "out/results.jsonl", kQuestion);
  ASSERT_EQ(log.done().size(), 1U);
  EXPECT_EQ(log.done()[0].at("loss").get<double>(), 1.5);
  EXPECT_EQ(log.notes(), std::vector<std::string>{"out/results.jsonl: its last line was cut short and is dropped"});
  EXPECT_TRUE(ResultLog(io, "out/results.jsonl", kQuestion).notes().empty()) << "once";
}

TEST(ResultLog, AnswersOneQuestionOnly) {
  MemoryIo io;
  { const ResultLog log(io, "results.jsonl", kQuestion); }
  EXPECT_THROW(ResultLog(io, "results.jsonl", {{"model", "m"}, {"data", "other"}}), Error);
}

}  // namespace
}  // namespace tern
