#pragma once
// The time that a pass of a model larger than memory takes, predicted from the rates of this machine, and a lower bound of that time.

#include <cstdint>
#include <string_view>
#include <vector>

#include "infer/stream_plan.h"
#include "infer/stream_rates.h"
#include "store/pass_time.h"

namespace tern {

/// How many different experts of the unit so many tokens choose, if all are chosen equally often: the mean.
double distinct_experts(const FileExperts&, int64_t tokens);
/// The bytes that a pass of `tokens` tokens reads if the share `hits` of its experts is in memory. For one token it is exact if `hits` was
/// counted. Several tokens may choose the same experts; for them it assumes that all experts are chosen equally often.
double expected_bytes(const StreamPlan&, int64_t tokens, double hits);
inline double expected_bytes(const StreamPlan& plan, int64_t tokens) {
  return expected_bytes(plan, tokens, plan.experts.even_share());
}

/// What so many bytes take at a rate in bytes per second; 0 if the rate is not known (0).
int64_t picoseconds(double bytes, double rate);

/// Rates of a pass in which disk and products overlap as far as they can.
struct OverlappedRates {
  double disk = 0;    // of the pass's reads
  double slower = 1;  // how many times as long the pass's products take as alone
};
/// For a pass that reads `bytes` and whose products take `products_s` alone. While both work, reading has the rate disk_beside and
/// products have 1 − slowed of theirs; what is left of either goes on at its own rate.
OverlappedRates overlapped_rates(double bytes, double products_s, const StreamRates&);

/// The steps of a pass in which `rates.rows` sequences get a token each, one for each band of the plan: the disk's time for the bands that
/// stream, and the products' times, by overlapped_rates.
std::vector<PassStep> pass_steps(const StreamPlan&, const StreamRates&);

/// The seconds of a pass, in which `tokens` sequences get a token each.
struct StreamTimes {
  int64_t tokens = 1;
  double disk_s = 0;      // the disk's work alone
  double products_s = 0;  // the products' work alone
  // both, by overlapped_rates, as the simulated ring does it (store/pass_time.h); experts are read from the router's answer on.
  double pass_s = 0;
  bool disk_binds() const { return disk_s > products_s; }
  double bound_s() const { return disk_binds() ? disk_s : products_s; }
  double bound_tokens_per_s() const { return static_cast<double>(tokens) / bound_s(); }
  double tokens_per_s() const { return static_cast<double>(tokens) / pass_s; }
  std::string_view binds() const { return disk_binds() ? "the disk" : "products"; }
};
/// `hits`: the share of chosen experts that are in memory.
StreamTimes stream_times(const StreamPlan&, const StreamRates&, double hits);
inline StreamTimes stream_times(const StreamPlan& plan, const StreamRates& rates) {
  return stream_times(plan, rates, plan.experts.even_share());
}

}  // namespace tern
