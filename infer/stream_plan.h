#pragma once
// A model larger than memory: which of its weights stay and which are read for every pass, the bytes that this takes, the
// predicted time of a token, and a lower bound of it.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "infer/load.h"
#include "infer/memory_fit.h"
#include "model/file_bands.h"

namespace tern {

/// Experts that are read when a token chooses them.
struct ExpertPlan {
  int64_t slots = 0, count = 0;  // experts that have a place in memory, of so many
  int64_t memory_bytes = 0;      // of their places
  int64_t bytes = 0;             // of all of them, as the files hold them
  int64_t chosen_bytes = 0;      // of those that a token chooses in all layers
  /// The share of chosen experts that are there, if all are chosen equally often.
  double even_share() const { return count > 0 ? static_cast<double>(slots) / static_cast<double>(count) : 0; }
};

struct StreamPlan {
  FileBands bands;
  std::vector<bool> stays;  // each band of a pass
  RingSettings ring;
  CacheSettings cache;  // of experts
  ExpertPlan experts;
  InferenceFit fit;
  int64_t pass_bytes = 0;      // of all matrices but experts as the files hold them: what a pass uses
  int64_t streamed_bytes = 0;  // of those, read for each pass, without the other bytes of the disk's blocks
  int64_t kept_bytes = 0;      // memory of the matrices that stay
};

/// Keeps as many bands as fit within `budget` beside everything else that inference holds, then as many experts: a band is used
/// for every token, an expert for some. Two experts have a place in any case, so that one can be read while the other is used.
/// Exact up to a band, or an expert.
/// Errors  does_not_fit, naming the least memory that would do: even with nothing kept, what cannot stream is too large.
StreamPlan plan_stream(const ModelDescription&, const InferenceNeeds&, const MemoryBudget&, const RingSettings& = {},
                       const BandSizes& = {});

/// Bytes that a pass of `tokens` tokens reads if the share `hits` of its experts is there. Exact for one
/// token if `hits` was counted; for more, which may choose the same experts, it assumes even choices.
double expected_bytes(const StreamPlan&, int64_t tokens, double hits);
inline double expected_bytes(const StreamPlan& plan, int64_t tokens) {
  return expected_bytes(plan, tokens, plan.experts.even_share());
}

/// Bytes per second, measured now.
struct StreamRates {
  double disk = 0;
  double kept = 0, coded = 0;  // products of one row with weights that stay, and with rows as a ring brings them
};
/// Of this machine's kernels, with 64 MiB of weights, or as much as half of what the plan will hold, for some milliseconds.
void measure_products(const StreamPlan&, DType, StreamRates&);

/// Of a decoded token.
struct StreamTimes {
  double disk_s = 0, products_s = 0;  // alone
  double pass_s = 0;                  // on the ring's virtual clock; experts are read from the router's answer on
  double bound_s() const { return disk_s > products_s ? disk_s : products_s; }
  std::string_view binds() const { return disk_s > products_s ? "the disk" : "products"; }
};
/// `hits`: the share of chosen experts that are there.
StreamTimes stream_times(const StreamPlan&, const StreamRates&, double hits);
inline StreamTimes stream_times(const StreamPlan& plan, const StreamRates& rates) {
  return stream_times(plan, rates, plan.experts.even_share());
}

}  // namespace tern
