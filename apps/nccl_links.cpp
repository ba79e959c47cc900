#include "apps/nccl_links.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "base/units.h"

namespace tern {
namespace {

bool is_ring(const NcclTest& t) {
  return t.collective == "all_reduce" || t.collective == "all_gather" || t.collective == "reduce_scatter";
}

MeasuredLink network_of(const ImportedTest& one, double link_latency_s) {
  const double ranks = static_cast<double>(one.test.ranks), hosts = static_cast<double>(one.test.hosts);
  const double of_host = ranks / hosts, latency = one.fit.latency_s;
  MeasuredLink out{.bandwidth = one.fit.bandwidth, .latency_s = latency};
  if (is_ring(one.test)) {
    out.latency_s = std::max(0.0, ((ranks - 1) * latency - (of_host - 1) * link_latency_s) / (hosts - 1));
  } else if (one.test.collective == "alltoall") {
    out.bandwidth *= of_host * (1 - 1 / hosts) / (1 - 1 / ranks);
    out.latency_s = std::max(0.0, latency - link_latency_s);
  } else if (one.test.collective == "sendrecv") {
    out.bandwidth *= of_host;
  }
  return out;
}

}  // namespace

MeasuredLinks links_of(std::span<const ImportedTest> all) {
  std::optional<size_t> used[2];  // inside, between
  for (size_t i = 0; i < all.size(); ++i) {
    std::optional<size_t>& best = used[all[i].test.hosts <= 1 ? 0 : 1];
    if (!best || (all[i].test.collective == "all_reduce" && all[*best].test.collective != "all_reduce")) best = i;
  }
  MeasuredLinks out;
  if (used[0]) {
    const LinkFit& fit = all[*used[0]].fit;
    out.link = MeasuredLink{*used[0], fit.bandwidth, fit.latency_s};
  }
  if (used[1]) {
    out.network = network_of(all[*used[1]], out.link ? out.link->latency_s : 0);
    out.network->test = *used[1];
  }
  return out;
}

std::string doubt_of(const ImportedTest& one) {
  std::string out;
  if (one.test.hosts == 2 && one.test.collective == "all_reduce")
    out = "between two nodes NCCL may reduce along a tree, which sends less than a ring; measure with NCCL_ALGO=RING";
  if (one.fit.median_error > 0.1)
    out +=
        fmt::format("{}one bandwidth and one latency are off by {:.0f} % in the middle: the links change with the size",
                    out.empty() ? "" : "; ", 100 * one.fit.median_error);
  return out;
}

std::string links_toml(std::span<const ImportedTest> all) {
  std::string out = "# Links as nccl-tests measured them, for a cluster file (docs/cluster-files.md).\n";
  for (const ImportedTest& one : all) {
    out += fmt::format(
        "# {}: {}{}, {} ranks{}: {:.1f} GB/s and {:.2f} us a step; off by {:.0f} % in the middle, {:.0f} % at most (at "
        "{}); largest bus bandwidth {:.1f} GB/s\n",
        make_printable(one.path), one.test.collective, one.test.named ? "" : " (worked out from its columns)",
        one.test.ranks, one.test.hosts > 0 ? fmt::format(" on {}", counted(one.test.hosts, "host")) : "",
        one.fit.bandwidth / 1e9, one.fit.latency_s * 1e6, 100 * one.fit.median_error, 100 * one.fit.worst_error,
        format_bytes(one.fit.worst_bytes), one.fit.best_busbw / 1e9);
    if (const std::string doubt = doubt_of(one); !doubt.empty()) out += fmt::format("#   {}\n", doubt);
  }
  const MeasuredLinks links = links_of(all);
  const auto source = [&](const MeasuredLink& l) {
    return fmt::format("  # measured: {}, {} ranks\n", all[l.test].test.collective, all[l.test].test.ranks);
  };
  if (const auto& l = links.link)
    out += fmt::format(
        "\n[node.NAME.link]\nname = \"nccl\"\nbandwidth = \"{:.5g}GB/s\"{}share = 1\nlatency = \"{:.5g}us\"{}",
        l->bandwidth / 1e9, source(*l), l->latency_s * 1e6, source(*l));
  if (const auto& n = links.network) {
    const NcclTest& test = all[n->test].test;
    out += fmt::format(
        "\n[node.NAME.network]  # {} a node\nbandwidth = \"{:.5g}GB/s\"{}share = 1\n\n[[network]]\nname = \"nccl\"\n"
        "nodes = {}\nlatency = \"{:.5g}us\"{}",
        counted(test.ranks / test.hosts, "rank"), n->bandwidth / 1e9, source(*n), test.hosts, n->latency_s * 1e6,
        source(*n));
  }
  return out;
}

}  // namespace tern
