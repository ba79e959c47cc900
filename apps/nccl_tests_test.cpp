#include "apps/nccl_tests.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "formats/mutations_testing.h"

namespace tern {
namespace {

// As all_reduce_perf prints it, for links of this latency and bandwidth.
std::string output_of(const std::string& collective, int ranks, double latency_us, double gb, bool devices = true) {
  std::string out = "# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 4(factor) warmup iters: 5 iters: 20\n#\n";
  if (!collective.empty()) out += fmt::format("# Collective test starting: {}_perf\n", collective);
  out += "# Using devices\n";
  for (int r = 0; devices && r < ranks; ++r)
    out += fmt::format("#  Rank {:2} Group  0 Pid {} on node{:02} device {:2} [0x07] NVIDIA A100-SXM4-80GB\n", r,
                       4000 + r, r / 8, r % 8);
  out +=
      "#\n#                                                       out-of-place                       in-place\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  "
      "(GB/s)\n";
  const bool reduces = collective.empty() || collective.find("reduce") != std::string::npos;
  const double n = ranks, times = collective == "all_reduce" || collective.empty() ? 2 : 1;
  for (int64_t bytes = 1024; bytes <= int64_t{1} << 30; bytes *= 4) {
    const double b = static_cast<double>(bytes), moved = times * b * (1 - 1 / n);
    const double steps = collective == "alltoall" ? 1 : times * (n - 1);
    const double us = steps * latency_us + moved / (gb * 1e3), alg = b / us / 1e3, bus = moved / us / 1e3;
    out += fmt::format("{:12} {:12} {:>9} {:>7} {:>7} {:8.2f} {:7.2f} {:7.2f} {:>6} {:8.2f} {:7.2f} {:7.2f} {:>6}\n",
                       bytes, bytes / 4, "float", reduces ? "sum" : "none", -1, us, alg, bus, 0, us, alg, bus, "N/A");
  }
  return out + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 41.7\n#\n";
}

TEST(NcclTests, GiveBackTheLinksBehindThem) {
  for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter", "alltoall"})
    for (const int ranks : {2, 8, 16}) {
      const NcclTest t = parse_nccl_tests(output_of(collective, ranks, 3.5, 180), "log");
      EXPECT_EQ(t.collective, collective);
      EXPECT_EQ(t.ranks, ranks);
      EXPECT_EQ(t.hosts, (ranks + 7) / 8);
      EXPECT_EQ(t.rows.size(), 11u);
      const LinkFit fit = fit_links(t);
      EXPECT_NEAR(fit.bandwidth / 180e9, 1, 0.01) << collective << ranks;
      EXPECT_NEAR(fit.latency_s / 3.5e-6, 1, 0.01) << collective << ranks;
      EXPECT_LT(fit.worst_error, 0.02);
    }
}

TEST(NcclTests, WhatTheTextDoesNotSayIsWorkedOut) {
  const NcclTest t = parse_nccl_tests(output_of("", 8, 2, 100, false), "log");
  EXPECT_EQ(t.collective, "all_reduce");
  EXPECT_FALSE(t.named);
  EXPECT_EQ(t.ranks, 8);
  EXPECT_EQ(t.hosts, 0);
}

// Bandwidth that falls with the size, as where a test shares its links, leaves no negative latency behind.
TEST(NcclTests, ConstantsAreNeverNegative) {
  NcclTest t{.collective = "all_reduce", .named = true, .ranks = 8, .hosts = 1};
  for (int64_t b = 1 << 10; b <= 1 << 30; b *= 4)
    t.rows.push_back({b, 1e-3 * static_cast<double>(b) * (b > 1 << 20 ? 2 : 1), 1, 1});
  const LinkFit fit = fit_links(t);
  EXPECT_GE(fit.latency_s, 0);
  EXPECT_GT(fit.bandwidth, 0);
}

TEST(NcclTests, RefusesWhatIsNoResult) {
  const std::string good = output_of("all_reduce", 8, 3, 100);
  const auto refused = [](const std::string& text) {
    try {
      parse_nccl_tests(text, "log");
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_file);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(refused("").find("no table"), std::string::npos);
  EXPECT_NE(refused("hello\n").find("no table"), std::string::npos);
  std::string wrong = good;
  wrong.replace(wrong.find(": 0 OK"), 6, ": 7 FAILED");
  EXPECT_NE(refused(wrong).find("values were wrong"), std::string::npos);
  EXPECT_NE(refused(good + output_of("all_gather", 8, 3, 100)).find("all_gather after all_reduce"), std::string::npos);
  EXPECT_NE(refused(good.substr(0, good.find("        1024"))).find("0 rows"), std::string::npos);
  std::string cut = good;
  cut.replace(cut.find("float"), 5, "     ");
  EXPECT_NE(refused(cut).find("is no row"), std::string::npos);
  std::string uneven = good;
  uneven.replace(uneven.find("on node00 device  7"), 9, "on node01");
  EXPECT_NE(refused(uneven).find("7 of 8 ranks are on 'node00', one of 2 hosts"), std::string::npos);
  EXPECT_NE(refused("#  Rank  0 on a device 0\n" + output_of("all_reduce", 8, 3, 100, false)).find("1 rank"),
            std::string::npos);
}

TEST(NcclTests, SurvivesMutations) {
  survive_mutations(
      {output_of("all_reduce", 8, 3, 100), output_of("", 4, 9, 12, false), output_of("alltoall", 16, 3, 90)},
      [](const std::string& text) {
        const LinkFit fit = fit_links(parse_nccl_tests(text, "log"));
        EXPECT_TRUE(fit.bandwidth > 0 && fit.latency_s >= 0) << text;
      });
}

}  // namespace
}  // namespace tern
