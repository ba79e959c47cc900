// A server and workers that are processes: the order that they recorded, taken again by threads, has their bits; a killed worker and a killed server
// cost nothing but time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/io.h"
#include "tests/e2e/launched_process.h"

namespace tern {
namespace {

TEST(Launch, ProcessesTrainAsynchronouslyAndTheirOrderIsReplayed) {
  const TinyRun tiny;
  std::string errors;
  const auto command = [&](int out, const Words& more) {
    Words words{"--async", "--workers", "3"};
    words.insert(words.end(), more.begin(), more.end());
    return tiny.command(tiny.out(out), words);
  };
  ASSERT_EQ(run_to_end(launched(4, command(1, {})), tiny.root(), &errors), 0) << errors;
  ASSERT_EQ(run_to_end(command(2, {"--replay", tiny.out(1) + "/arrivals.txt"}), tiny.root(), &errors), 0) << errors;
  EXPECT_TRUE(final_bits(tiny.out(2)) == final_bits(tiny.out(1))) << "threads";

  std::string order;  // some twenty gradients of each worker, whichever is fast
  for (int t = 0; t < 60; ++t) order += fmt::format("{}\n", t % 7 == 3 ? 0 : t % 3);
  write_file_atomically(real_io(), tiny.root() + "/order.txt", order);
  const Words replay{"--replay", tiny.root() + "/order.txt"};
  ASSERT_EQ(run_to_end(command(3, replay), tiny.root(), &errors), 0) << errors;
  const std::string want = final_bits(tiny.out(3));
  // A work and a gradient are some twenty messages each, so these are about half way.
  for (const auto& [rank, message] : {std::pair{0, 700}, std::pair{2, 180}}) {
    const int out = 4 + rank;
    Words words = launched(4, command(out, replay));
    words.insert(words.begin(), {"/usr/bin/env", fmt::format("TERN_FAULT=die@{}@{}", rank, message)});
    EXPECT_EQ(run_to_end(words, tiny.root(), &errors), 5) << errors;
    EXPECT_NE(errors.find(fmt::format("rank {} was killed by signal 9", rank)), std::string::npos) << errors;
    EXPECT_TRUE(real_io().stat(tiny.out(out) + "/checkpoints"));
    EXPECT_FALSE(real_io().stat(tiny.out(out) + "/checkpoints/step-60"));
    ASSERT_EQ(run_to_end(launched(4, command(out, replay)), tiny.root(), &errors), 0) << errors;
    EXPECT_TRUE(final_bits(tiny.out(out)) == want) << "rank " << rank;
  }
}

}  // namespace
}  // namespace tern
