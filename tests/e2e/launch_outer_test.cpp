// Processes that rarely average have the bits of threads that do.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/launched_process.h"

namespace tern {
namespace {

TEST(Launch, ProcessesRarelyAverage) {
  const TinyRun tiny;
  const std::vector<std::vector<std::string>> kinds{
      {"diloco", "--outer-fragments", "2", "--outer-delay", "1", "--outer-mix", "0.5", "--outer-codec", "int8"},
      {"noloco", "--outer-away", "3@2-2"},
      {"co2", "--outer-codec", "powersgd", "--outer-rank", "2"}};
  int out = 0;
  for (const std::vector<std::string>& kind : kinds) {
    SCOPED_TRACE(kind[0]);
    std::string errors;
    const auto on = [&](int to) {
      std::vector<std::string> words{"--micro-batch", "1", "--ranks", "4", "--outer-every", "2", "--outer"};
      words.insert(words.end(), kind.begin(), kind.end());
      return tiny.command(tiny.out(to), words);
    };
    const int threads = ++out, processes = ++out;
    ASSERT_EQ(run_to_end(on(threads), tiny.root(), &errors), 0) << errors;
    EXPECT_NE(errors.find("to average, all ranks together sent"), std::string::npos) << errors;
    ASSERT_EQ(run_to_end(launched(4, on(processes)), tiny.root(), &errors), 0) << errors;
    EXPECT_TRUE(final_bits(tiny.out(processes)) == final_bits(tiny.out(threads)));
  }
}

}  // namespace
}  // namespace tern
