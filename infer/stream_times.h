#pragma once
// The time that a token of a model larger than memory takes, predicted from the rates of this machine, and a lower bound of that time.

#include <cstdint>
#include <string_view>
#include <vector>

#include "infer/stream_plan.h"
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

/// Rates of this machine, in bytes per second.
struct StreamRates {
  double disk = 0;   // of reading
  double kept = 0;   // of products of one row with packed weights, as those stay that take no more bytes so
  double coded = 0;  // of products of one row with weights as the files code them: the ring's, and others that stay
  double read_cpu = 0;  // seconds of one core that reading a byte takes, of the cores that multiply; 0: reading takes none
};
/// Measures `kept` and `coded` for kProductSeconds each, with 64 MiB of weights, or with half of what the plan will hold if that is less.
inline constexpr double kProductSeconds = 0.15;
void measure_products(const StreamPlan&, DType, StreamRates&);

/// What so many bytes take at a rate in bytes per second; 0 if the rate is not known (0).
int64_t picoseconds(double bytes, double rate);

/// The steps of a decoded token, one for each band of the plan: the disk's time for the bands that stream, and the products' times,
/// longer by what reading takes of the cores meanwhile.
std::vector<PassStep> pass_steps(const StreamPlan&, const StreamRates&);

/// The seconds of a decoded token.
struct StreamTimes {
  double disk_s = 0;      // the disk's work alone
  double products_s = 0;  // the products' work alone, without what reading takes of the cores
  // both, overlapped as the simulated ring does it, and what reading takes of the cores (store/pass_time.h); experts are read only once the router has answered.
  double pass_s = 0;
  double bound_s() const { return disk_s > products_s ? disk_s : products_s; }
  std::string_view binds() const { return disk_s > products_s ? "the disk" : "products"; }
};
/// `hits`: the share of chosen experts that are in memory.
StreamTimes stream_times(const StreamPlan&, const StreamRates&, double hits);
inline StreamTimes stream_times(const StreamPlan& plan, const StreamRates& rates) {
  return stream_times(plan, rates, plan.experts.even_share());
}

}  // namespace tern
