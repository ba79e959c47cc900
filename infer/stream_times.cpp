#include "infer/stream_times.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/clock.h"
#include "base/threads.h"
#include "kernels/cpu/coded_matmul.h"
#include "kernels/cpu/matmul.h"
#include "model/linear.h"

namespace tern {
namespace {

// Bytes per second of products of one row with `weight`, of all its bytes: the mean, as a token is no faster than the mean of its products.
double product_rate(const Linear& linear, int64_t bytes, DType dtype, Arena& arena) {
  const Tensor x = arena.zeros(dtype, {1, linear.in}, MemoryClass::workspace);
  const Tensor y = arena.allocate(dtype, {1, linear.out}, MemoryClass::workspace);
  const Compute compute{arena};
  linear_forward(linear, x, y, compute);  // threads start, pages come
  double rounds = 0, seconds = 0;
  for (const int64_t begin_ns = real_clock().now_ns(); seconds < kProductSeconds; ++rounds) {
    linear_forward(linear, x, y, compute);
    seconds = seconds_between(begin_ns, real_clock().now_ns());
  }
  return rounds * static_cast<double>(bytes) / seconds;
}

}  // namespace

void measure_products(const StreamPlan& plan, DType dtype, StreamRates& rates) {
  const int64_t most = std::min(int64_t{64} << 20, plan.fit.peak() / 2);  // the limit holds here, too
  if (plan.bands.matrices.empty()) return;
  const FileMatrix& m = plan.bands.matrices.front();
  const WeightType type = m.bands.front().type;
  {
    Arena arena;
    const int64_t rows = std::max<int64_t>(64, most / (m.in * size_of(dtype)) / 64 * 64);
    const int64_t bytes = packed_bytes(dtype, rows, m.in);
    const Tensor packed = arena.zeros(DType::u8, {bytes}, MemoryClass::weights);
    rates.kept = product_rate({.weight = PackedWeight{packed}, .out = rows, .in = m.in}, bytes, dtype, arena);
  }
  rates.coded = rates.kept;
  if (!multiplies_coded(dtype) && multiplies_as_streamed(type, 0, 0, dtype)) return;
  Arena arena;
  const bool in_integers = m.bands.front().in_integers;
  const int64_t decoded = in_integers || multiplies_coded(dtype) ? 0 : m.in * size_of(dtype);
  const int64_t rows = std::max<int64_t>(64, most / (stored_bytes(type, 1, m.in) + decoded) / 64 * 64);
  const int64_t bytes = stored_bytes(type, rows, m.in);
  const Tensor coded = arena.zeros(DType::u8, {bytes}, MemoryClass::weights);
  rates.coded = product_rate(
      {.weight = CodedWeight{{{type, coded, rows, 0, m.bands.front().tables}}, in_integers}, .out = rows, .in = m.in},
      bytes, dtype, arena);
}

double distinct_experts(const FileExperts& unit, int64_t tokens) {
  const auto count = static_cast<double>(unit.up.size()), chosen = static_cast<double>(unit.top_k);
  return count * (1 - std::pow(1 - chosen / count, static_cast<double>(tokens)));
}

double expected_bytes(const StreamPlan& plan, int64_t tokens, double hits) {
  double bytes = static_cast<double>(plan.streamed_bytes);
  for (const FileExperts& unit : plan.bands.experts)
    bytes += (1 - hits) * distinct_experts(unit, tokens) * static_cast<double>(unit.expert_bytes());
  return bytes;
}

int64_t picoseconds(double bytes, double rate) { return rate > 0 ? static_cast<int64_t>(bytes / rate * 1e12) : 0; }

namespace {

// Seconds of loading and of multiplying one expert's matrices.
struct MatrixTimes {
  double load_s, product_s;
};
MatrixTimes matrix_times(const FileMatrix& m, const StreamRates& rates) {
  double blocks = 0, bytes = 0;
  for (const FileBand& band : m.bands) {
    blocks += static_cast<double>(blocks_of(band.extent, kStreamAlignment).bytes);
    bytes += static_cast<double>(band.extent.bytes);
  }
  return {rates.disk > 0 ? blocks / rates.disk : 0, rates.coded > 0 ? bytes / rates.coded : 0};
}

// The experts of one token with `missing` of the k, spread evenly among them: their matrices are read one behind the other from the router's
// answer on, all `up` before all `down`, and each product waits for its own matrix and for the product before it.
double experts_s(const MatrixTimes& up, const MatrixTimes& down, int64_t k, int64_t missing) {
  double arrival = 0, done = 0;
  for (const MatrixTimes& m : {up, down})
    for (int64_t i = 0; i < k; ++i) {
      const bool is_missing = (i + 1) * missing / k > i * missing / k;
      if (is_missing) arrival += m.load_s;
      done = (is_missing ? std::max(done, arrival) : done) + m.product_s;
    }
  return done;
}

// Of one unit, the mean over how many of its chosen experts are missing: each is there with probability `hits`.
double mean_experts_s(const FileExperts& unit, const StreamRates& rates, double hits, StreamTimes& times) {
  const MatrixTimes up = matrix_times(unit.up.front(), rates), down = matrix_times(unit.down.front(), rates);
  const int64_t k = unit.top_k;
  times.disk_s += (1 - hits) * static_cast<double>(k) * (up.load_s + down.load_s);
  times.products_s += static_cast<double>(k) * (up.product_s + down.product_s);
  double mean = 0, ways = 1;  // ways to choose the missing ones
  for (int64_t missing = 0; missing <= k; ++missing) {
    const double share = ways * std::pow(1 - hits, missing) * std::pow(hits, k - missing);
    mean += share * experts_s(up, down, k, missing);
    ways = ways * static_cast<double>(k - missing) / static_cast<double>(missing + 1);
  }
  return mean;
}

}  // namespace

std::vector<PassStep> pass_steps(const StreamPlan& plan, const StreamRates& rates) {
  std::vector<PassStep> steps;
  const auto ps = [](int64_t bytes, double rate) { return picoseconds(static_cast<double>(bytes), rate); };
  const double cores = num_compute_threads();
  size_t at = 0;
  for (const FileMatrix& m : plan.bands.matrices)
    for (const FileBand& band : m.bands) {
      const bool stays = plan.stays[at++];
      const BlockRange blocks = blocks_of(band.extent, kStreamAlignment);
      const int64_t packed = packed_bytes(plan.dtype, band.rows, m.in);
      const int64_t reading_ps = stays ? 0 : picoseconds(static_cast<double>(blocks.bytes) * rates.read_cpu, cores);
      const bool is_packed = stays && stays_packed(band, m.in, plan.dtype);  // else as the file codes it
      steps.push_back(
          {.load_ps = stays ? 0 : ps(blocks.bytes, rates.disk),
           .forward_ps = reading_ps + (is_packed ? ps(packed, rates.kept) : ps(band.extent.bytes, rates.coded))});
    }
  return steps;
}

StreamTimes stream_times(const StreamPlan& plan, const StreamRates& rates, double hits) {
  StreamTimes times;
  StreamRates free_reads = rates;
  free_reads.read_cpu = 0;
  for (const PassStep& step : pass_steps(plan, free_reads)) {
    times.disk_s += 1e-12 * static_cast<double>(step.load_ps);
    times.products_s += 1e-12 * static_cast<double>(step.forward_ps);
  }
  const int64_t pass_ps = steady_pass_ps(pass_steps(plan, rates), plan.ring.slots);
  times.pass_s = 1e-12 * static_cast<double>(pass_ps);
  for (const FileExperts& unit : plan.bands.experts) times.pass_s += mean_experts_s(unit, rates, hits, times);
  return times;
}

}  // namespace tern
