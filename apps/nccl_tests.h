#pragma once
// Reads what nccl-tests (all_reduce_perf, all_gather_perf, …) printed, and fits bandwidth and latency of links to it. Source:
// the output format of github.com/NVIDIA/nccl-tests (src/common.cu, doc/PERFORMANCE.md for "bus bandwidth"), from memory.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// A line of the table.
struct NcclRow {
  int64_t bytes = 0;                    // of the whole tensor
  double us = 0, algbw = 0, busbw = 0;  // out of place: microseconds, GB/s, GB/s
};
struct NcclTest {
  std::string
      collective;      // "all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv", "broadcast", "reduce"
  bool named = false;  // whether the text names the collective; false: it was inferred from the columns
  int64_t ranks = 0, hosts = 0;  // hosts 0: the text does not say
  std::vector<NcclRow> rows;     // by rising size
};
/// Reads such a text, which is not trusted: it may have at most 16 MiB and 65,536 rows. Errors: bad_file "PATH: …": no table, a malformed row, values
/// that were wrong on the devices, fewer than three sizes, more than one collective, hosts with unlike numbers of ranks.
NcclTest parse_nccl_tests(std::string_view text, const std::string& path);
/// The fit of time = steps · latency + sent / bandwidth, by the least squares of relative errors over all sizes; neither latency nor
/// bandwidth is negative. Steps and sent bytes are those of plan/comm_cost.h: in a ring n − 1 steps and (1 − 1/n) of the bytes, twice
/// that for all_reduce; in an alltoall one step and (1 − 1/n) of the bytes; for sendrecv, broadcast and reduce one step and all
/// bytes. Over several hosts all bytes of a ring enter each host; links_of (apps/nccl_links.h) derives a node's network from this.
struct LinkFit {
  double bandwidth = 0;                      // bytes/s through each rank, each way
  double latency_s = 0;                      // per step
  double median_error = 0, worst_error = 0;  // |fit / measured − 1|
  int64_t worst_bytes = 0;
  double best_busbw = 0;  // bytes/s, the largest of any row
};
LinkFit fit_links(const NcclTest&);
/// The one bandwidth and latency that fit the rows of several tests together.
LinkFit fit_links(std::span<const NcclTest>);

}  // namespace tern
