#include "infer/stream_rates.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <future>

#include "base/bug.h"
#include "base/clock.h"
#include "infer/stream_times.h"
#include "kernels/cpu/coded_matmul.h"
#include "kernels/cpu/matmul.h"
#include "model/linear.h"

namespace tern {
namespace {

// Bytes of the largest cache, which a virtual machine may share with many others; 0 where the system does not say.
int64_t cache_bytes() {
#if defined(_SC_LEVEL3_CACHE_SIZE)
  return std::max<int64_t>(0, sysconf(_SC_LEVEL3_CACHE_SIZE));
#else
  return 0;
#endif
}

// How many rows, of `row_bytes` each, a matrix has whose products with x (rows, in) are measured: where a pass does not fit into the caches, it
// must not either, or it is read faster than weights are.
int64_t rows_of_matrix(const StreamPlan& plan, int64_t row_bytes, int64_t rows, int64_t in) {
  TERN_CHECK(rows >= 1, "products of {} rows", rows);
  const int64_t limit = (plan.fit.peak() - plan.fit.ring) / 2 - rows * in * size_of(plan.dtype);  // it holds here, too
  const int64_t wanted = std::max(int64_t{64} << 20, std::min(plan.pass_bytes, 2 * cache_bytes()));
  const int64_t most = std::min({wanted, (int64_t{1} << 30) / rows, limit});
  return std::max<int64_t>(64, most / (row_bytes + rows * size_of(plan.dtype)) / 64 * 64);
}

// Bytes per second of products of `rows` rows with a matrix of so many bytes, while `goes_on` says so of the seconds that have passed. The
// matrix is multiplied in parts, as a pass does it: threads wait for each other behind each.
double product_rate(const std::vector<Linear>& bands, int64_t rows, int64_t bytes, DType dtype, Arena& arena,
                    const std::function<bool(double)>& goes_on) {
  const Tensor x = arena.zeros(dtype, {rows, bands.front().in}, MemoryClass::workspace);
  const Tensor y = arena.allocate(dtype, {rows, bands.front().out}, MemoryClass::workspace);
  const Compute compute{arena};
  const auto multiply = [&] {
    for (const Linear& band : bands) linear_forward(band, x, y, compute);
  };
  multiply();  // threads start, pages come
  double rounds = 0, seconds = 0;
  for (const int64_t begin_ns = real_clock().now_ns(); goes_on(seconds); ++rounds) {
    multiply();
    seconds = seconds_between(begin_ns, real_clock().now_ns());
  }
  return seconds > 0 ? rounds * static_cast<double>(bytes) / seconds : 0;
}

double kept_rate(const StreamPlan& plan, const FileMatrix& m, int64_t rows,
                 const std::function<bool(double)>& goes_on) {
  const DType dtype = plan.dtype;
  const int64_t in = m.in, out = rows_of_matrix(plan, in * size_of(dtype), rows, in);
  const int64_t band = std::min(m.out, out), count = (out + band / 2) / band;  // neighbours that stay are one product
  const int64_t bytes = packed_bytes(dtype, band, in);
  Arena arena;
  const Tensor packed = arena.zeros(DType::u8, {count, bytes}, MemoryClass::weights);
  std::vector<Linear> bands;
  for (int64_t i = 0; i < count; ++i)
    bands.push_back({.weight = PackedWeight{packed.rows_view(i, i + 1).reshaped({bytes})}, .out = band, .in = in});
  return product_rate(bands, rows, count * bytes, dtype, arena, goes_on);
}

double coded_rate(const StreamPlan& plan, const FileMatrix& m, int64_t rows,
                  const std::function<bool(double)>& goes_on) {
  const DType dtype = plan.dtype;
  const FileBand& first = m.bands.front();
  const int64_t decoded = first.in_integers || multiplies_coded(dtype) ? 0 : m.in * size_of(dtype);
  const int64_t row_bytes = stored_bytes(first.type, 1, m.in);
  const int64_t out = rows_of_matrix(plan, row_bytes + decoded, rows, m.in), band = std::min(first.rows, out);
  const int64_t count = (out + band / 2) / band, bytes = band * row_bytes;
  Arena arena;
  const Tensor coded = arena.zeros(DType::u8, {count, bytes}, MemoryClass::weights);
  std::vector<Linear> bands;
  for (int64_t i = 0; i < count; ++i) {
    const Tensor of_band = coded.rows_view(i, i + 1).reshaped({bytes});
    bands.push_back({.weight = CodedWeight{{{first.type, of_band, band, 0, first.tables}}, first.in_integers},
                     .out = band,
                     .in = m.in});
  }
  return product_rate(bands, rows, count * bytes, dtype, arena, goes_on);
}

// The rows that choose an expert that is chosen at all, on average.
int64_t rows_of_expert(const FileExperts& unit, int64_t rows) {
  return std::max<int64_t>(1, std::lround(static_cast<double>(rows * unit.top_k) / distinct_experts(unit, rows)));
}

// Whether weights as the file codes them are multiplied otherwise than packed ones: bf16 on tiles is not, wherever it lies.
bool has_coded_form(const FileMatrix& m, DType dtype) {
  const FileBand& band = m.bands.front();
  return band.in_integers || multiplies_coded(dtype) || !multiplies_as_streamed(band.type, 0, 0, dtype);
}

// Whether products of weights that stay packed take more of a token than those of others.
bool packed_takes_most(const StreamPlan& plan, const StreamRates& rates) {
  double packed = 0, coded = 0;
  size_t at = 0;
  for (const FileMatrix& m : plan.bands.matrices)
    for (const FileBand& band : m.bands) {
      const bool is_packed = plan.stays[at++] && stays_packed(band, m.in, plan.dtype);
      (is_packed ? packed : coded) += static_cast<double>(band.extent.bytes);
    }
  return packed * rates.coded > coded * rates.kept;
}

}  // namespace

double probe_share(const StreamPlan& plan) {
  return std::clamp(static_cast<double>(plan.pass_bytes + plan.experts.bytes) / (64 << 20), 0.1, 1.0);
}

void measure_products(const StreamPlan& plan, StreamRates& rates) {
  if (plan.bands.matrices.empty()) return;
  const double most = kProductSeconds * probe_share(plan);
  const auto for_a_time = [most](double seconds) { return seconds < most; };
  const FileMatrix& first = plan.bands.matrices.front();
  rates.coded = rates.kept = kept_rate(plan, first, rates.rows, for_a_time);
  if (has_coded_form(first, plan.dtype)) rates.coded = coded_rate(plan, first, rates.rows, for_a_time);
  if (plan.bands.experts.empty() || rates.rows == 1) return;
  const FileExperts& unit = plan.bands.experts.front();
  const FileMatrix& expert = unit.up.front();
  const int64_t rows = rows_of_expert(unit, rates.rows);
  rates.experts = has_coded_form(expert, plan.dtype) ? coded_rate(plan, expert, rows, for_a_time)
                                                     : kept_rate(plan, expert, rows, for_a_time);
}

ProbedRate measure_beside(const StreamPlan& plan, BlockFiles& files, std::span<const Extent> extents, int threads,
                          StreamRates& rates) {
  if (plan.bands.matrices.empty() || extents.empty()) return {};
  // A probe takes a slot more than threads; it has no more memory than the ring will have.
  const int readers = std::clamp(threads, 1, std::max(1, plan.ring.slots - 1));
  const double most = kBesideSeconds * probe_share(plan);
  const auto read = [&] {
    ProbedRate all;
    while (all.seconds < most) {
      const ProbedRate once = probe_rate(files, extents, readers, most - all.seconds);
      all.bytes += once.bytes, all.seconds += once.seconds, all.cpu_s += once.cpu_s;
    }
    return all;
  };
  const FileMatrix& first = plan.bands.matrices.front();
  const bool packed = !has_coded_form(first, plan.dtype) || packed_takes_most(plan, rates);
  std::future<ProbedRate> reading;
  const auto while_it_reads = [&](double) {
    if (!reading.valid()) reading = std::async(std::launch::async, read);
    return reading.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  };
  const double rate =
      packed ? kept_rate(plan, first, rates.rows, while_it_reads) : coded_rate(plan, first, rates.rows, while_it_reads);
  const ProbedRate beside = reading.get();
  rates.disk_beside = std::min(beside.bytes_per_s(), rates.disk);
  const double alone = packed ? rates.kept : rates.coded;
  rates.slowed = alone > 0 ? std::clamp(1 - rate / alone, 0.0, 0.9) : 0;
  return beside;
}

ProbedRate measure_experts(const StreamPlan& plan, BlockFiles& files, int threads, StreamRates& rates) {
  if (plan.bands.experts.empty() || plan.experts.even_share() >= 1) return {};
  const FileExperts& unit = plan.bands.experts.front();
  const double missing = (1 - plan.experts.even_share()) * distinct_experts(unit, rates.rows);
  const auto at_once = std::clamp<int64_t>(std::lround(missing), 1, std::max<int64_t>(1, plan.experts.slots));
  const auto units = static_cast<double>(plan.bands.experts.size());
  // The last expert's second product, and a layer's share of all others.
  double rest_s = rates.kept > 0 ? static_cast<double>(plan.pass_bytes) / units / rates.kept : 0;
  const double products = rates.experts > 0 ? rates.experts : rates.coded;
  for (const FileBand& band : unit.down.front().bands)
    rest_s += products > 0 ? static_cast<double>(band.extent.bytes) / products : 0;
  const ProbedRate read = probe_lists(files, expert_items(plan.bands), static_cast<int>(at_once), rest_s, threads,
                                      kExpertsSeconds * probe_share(plan));
  rates.disk_experts = std::min(read.bytes_per_s(), rates.disk);
  return read;
}

}  // namespace tern
