#include "apps/nccl_links.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hardware/cluster.h"
#include "hardware/machine.h"
#include "hardware/machines.h"
#include "plan/comm_cost.h"

namespace tern {
namespace {

using Collective = int64_t (*)(const Machine&, RankGroup, int64_t);

// A machine of two levels with these rates; seconds, bytes/s.
Machine machine(int64_t hosts, int64_t of_host, double link, double link_s, double network, double network_s) {
  const auto ps = [](double s) { return std::llround(s * 1e12); };
  const int64_t all = hosts * of_host;
  Machine m{.num_nodes = hosts, .levels = {{"link", of_host, link, ps(link_s)}}};
  m.node.num_devices = of_host;
  m.levels.push_back({"network", all, network / static_cast<double>(of_host), ps(network_s)});
  return m;
}

// What a test on that machine would have printed.
ImportedTest measured(const Machine& m, const char* collective, Collective time, int64_t ranks) {
  ImportedTest one{.path = "log", .test = {.collective = collective, .named = true, .ranks = ranks}};
  one.test.hosts = ranks / m.node.num_devices;
  for (int64_t bytes = 1 << 12; bytes <= int64_t{1} << 32; bytes *= 4) {
    const double us = static_cast<double>(time(m, {ranks, 1}, bytes)) * 1e-6;
    one.test.rows.push_back({bytes, us, static_cast<double>(bytes) / us / 1e3, static_cast<double>(bytes) / us / 1e3});
  }
  one.fit = fit_links(one.test);
  return one;
}

TEST(NcclLinks, GiveBackTheTimesOfTheMachineThatWasMeasured) {
  const struct {
    const char* name;
    Collective time;
    int64_t hosts, of_host;
    double link, network;
  } cases[] = {
      {"all_gather", all_gather_ps, 2, 8, 230e9, 400e9},  // the link binds
      {"all_reduce", all_reduce_ps, 2, 8, 230e9, 400e9},
      {"all_reduce", all_reduce_ps, 4, 1, 230e9, 25e9},  // what enters a node is what a ring sends
      {"reduce_scatter", reduce_scatter_ps, 16, 1, 230e9, 25e9},
      {"alltoall", all_to_all_ps, 2, 8, 230e9, 100e9},
      {"alltoall", all_to_all_ps, 4, 4, 230e9, 100e9},
  };
  for (const auto& c : cases) {
    const double link_s = 3e-6, network_s = 20e-6;
    const Machine m = machine(c.hosts, c.of_host, c.link, link_s, c.network, network_s);
    std::vector<ImportedTest> tests{measured(m, c.name, c.time, c.hosts * c.of_host)};
    if (c.of_host > 1) tests.push_back(measured(m, c.name, c.time, c.of_host));
    const MeasuredLinks links = links_of(tests);
    ASSERT_EQ(links.link.has_value(), c.of_host > 1);
    ASSERT_TRUE(links.network);
    const double found = links.link ? links.link->bandwidth : c.link, found_s = links.link ? links.link->latency_s : 0;
    const Machine back =
        machine(c.hosts, c.of_host, found, found_s, links.network->bandwidth, links.network->latency_s);
    for (const NcclRow& row : tests[0].test.rows)
      EXPECT_NEAR(static_cast<double>(c.time(back, {tests[0].test.ranks, 1}, row.bytes)) * 1e-6 / row.us, 1, 1e-3)
          << c.name << ", " << c.hosts << " x " << c.of_host << ": " << row.bytes;
    EXPECT_NEAR(links.network->latency_s / network_s, 1, 1e-3) << c.name;
  }
}

// A DGX A100 has 8 cards of 25 GB/s: a ring of 188 GB/s through two of them is a network of 188 GB/s, not 1504.
TEST(NcclLinks, ARingsBandwidthIsItsNodesOwn) {
  for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"}) {
    const ImportedTest one{.path = "log",
                           .test = {.collective = collective, .named = true, .ranks = 16, .hosts = 2},
                           .fit = {.bandwidth = 188e9, .latency_s = 4e-6}};
    const MeasuredLinks links = links_of(std::span(&one, 1));
    EXPECT_FALSE(links.link);
    ASSERT_TRUE(links.network);
    EXPECT_EQ(links.network->bandwidth, 188e9) << collective;
    EXPECT_NE(links_toml(std::span(&one, 1)).find("bandwidth = \"188GB/s\"  # measured"), std::string::npos);
    EXPECT_EQ(doubt_of(one).find("tree") != std::string::npos, std::string(collective) == "all_reduce");
  }
}

// What a person pastes is what was measured, of whichever tests count.
TEST(NcclLinks, AreKeysOfAClusterFile) {
  const Machine m = machine(2, 8, 230e9, 3e-6, 400e9, 20e-6);
  const std::vector<ImportedTest> tests{measured(m, "all_gather", all_gather_ps, 8),
                                        measured(m, "all_reduce", all_reduce_ps, 8),
                                        measured(m, "all_reduce", all_reduce_ps, 16)};
  EXPECT_EQ(links_of(tests).link->test, 1U);
  EXPECT_EQ(links_of(tests).network->test, 2U);
  std::string text = links_toml(tests), file = cluster_text("a100-80g");
  for (size_t at; (at = text.find("NAME")) != std::string::npos;) text.replace(at, 4, "dgx");
  for (const char* table : {"[node.dgx.link]", "[node.dgx.network]", "[[network]]"}) {
    const size_t from = file.find(table), end = file.find("\n\n", from);
    file.erase(from, end - from);
  }
  const Machine back = machine_of(with_nodes(parse_cluster(file + text, "pasted"), 2), 0);
  EXPECT_NEAR(back.node.link.bandwidth / 230e9, 1, 1e-3);
  EXPECT_NEAR(back.levels[1].bandwidth / (230e9 / 8), 1, 1e-3);  // the link bound: more of the network is not known
  EXPECT_NEAR(static_cast<double>(back.levels[1].latency_ps) / 20e6, 1, 1e-3);
}

}  // namespace
}  // namespace tern
