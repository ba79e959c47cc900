#include "infer/stream_plan.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "kernels/cpu/coded_matmul.h"
#include "kernels/cpu/matmul.h"
#include "model/linear.h"
#include "model/ops.h"
#include "spec/unit_cost.h"
#include "store/pass_time.h"

namespace tern {
namespace {

constexpr int64_t kAlignment = 4096;                 // of most files; others are found when they are opened
constexpr int kLeastExperts = 2;                     // that have a place: one is read while the other is used
constexpr int64_t kThreadBytes = int64_t{96} << 10;  // of a reading thread: its stack, as far as it is touched

std::vector<Extent> extents_of(const FileBands& bands, const std::vector<bool>& stays, bool which) {
  std::vector<Extent> extents;
  size_t at = 0;
  for (const FileMatrix& m : bands.matrices)
    for (const FileBand& band : m.bands)
      if (stays[at++] == which) extents.push_back(band.extent);
  return extents;
}

// A band as it was read and decoded, before it is packed.
int64_t largest_decoded(const FileBands& bands, DType dtype) {
  int64_t most = 0;
  for (const FileMatrix& m : bands.matrices)
    for (const FileBand& band : m.bands) most = std::max(most, band.rows * m.in * size_of(dtype));
  return most;
}
int64_t largest_expert_matrix(const FileBands& bands, DType dtype) {
  int64_t most = 0;
  for (const FileExperts& unit : bands.experts)
    for (const auto* matrices : {&unit.up, &unit.down})
      for (const FileMatrix& m : *matrices) most = std::max(most, m.out * m.in * size_of(dtype));
  return most;
}

// Of tensors that are a part of an expert's matrix: a product's columns then stand in workspace first.
int64_t widest_of_experts(const FileBands& bands) {
  int64_t most = 0;
  for (const FileExperts& unit : bands.experts)
    for (const FileBand& band : unit.up.front().bands)
      if (band.rows < unit.up.front().out) most = std::max(most, band.rows);
  return most;
}

int64_t experts_bytes(const std::vector<CacheItem>& items, int slots) {
  const int each[] = {slots, slots};
  return items.empty() ? 0 : ExtentCache::bytes_for(items, each, kAlignment) + kAlignment;
}

// inference_fit, and what streaming adds to it.
InferenceFit fit_of(const ModelDescription& model, const InferenceNeeds& needs, const StreamPlan& plan,
                    int64_t widest) {
  const DType dtype = model.dtype;
  InferenceFit fit = inference_fit(model.spec, dtype, needs, bytes_in_memory(plan.bands, plan.stays, dtype));
  const auto slots = [&](bool stays) -> int64_t {
    const std::vector<Extent> extents = extents_of(plan.bands, plan.stays, stays);
    return extents.empty() ? 0 : CyclicRing::bytes_for(extents, plan.ring.slots, kAlignment) + kAlignment;
  };
  fit.ring = slots(false) + plan.experts.memory_bytes;
  fit.loading_peak =
      std::max(fit.loading_peak + fit.ring, fit.weights + slots(true) + largest_decoded(plan.bands, dtype));
  const int64_t tokens = needs.iteration_tokens, size = size_of(dtype);
  const FileBand& table = plan.bands.table;
  const int64_t columns = tokens > 1 ? tokens * widest * size : 0;
  const int64_t decoded = multiplies_coded(dtype)
                              ? 0
                              : std::max(largest_decoded(plan.bands, dtype), largest_expert_matrix(plan.bands, dtype));
  fit.activations += std::max(columns + decoded, table.rows > 0 ? tokens * (table.extent.bytes / table.rows) : 0);
  const int64_t rows = needs.sequences > 0 ? needs.logit_rows : std::min(tokens, kHeadTile);
  if (!needs.vectors) fit.logits += (rows > 1 ? rows * widest * 4 : 0) + decoded;
  fit.beside += kThreadBytes * plan.ring.threads * (plan.experts.count > 0 ? 2 : 1);
  return fit;
}

int64_t widest_matrix(const FileBands& bands) {
  int64_t most = widest_of_experts(bands);
  for (const FileMatrix& m : bands.matrices) most = std::max(most, m.out);
  return most;
}

// What stays in `room`. Where the head is read again for every tile of rows, it comes first.
std::vector<bool> choose(const FileBands& bands, std::span<const PassExtent> extents, bool head_first, int64_t room) {
  const bool apart = head_first && !bands.matrices.empty() && bands.matrices.back().head;
  const auto of_head = extents.last(apart ? bands.matrices.back().bands.size() : 0);
  const std::vector<bool> head = choose_resident(of_head, room);
  for (size_t i = 0; i < head.size(); ++i) room -= head[i] ? of_head[i].kept_bytes : 0;
  std::vector<bool> stays = choose_resident(extents.first(extents.size() - of_head.size()), room);
  stays.insert(stays.end(), head.begin(), head.end());
  return stays;
}

ExpertPlan least_experts(const FileBands& bands) {
  ExpertPlan experts{.slots = 0, .count = num_experts(bands)};
  for (const FileExperts& unit : bands.experts) {
    experts.bytes += unit.expert_bytes() * static_cast<int64_t>(unit.up.size());
    experts.chosen_bytes += unit.expert_bytes() * unit.top_k;
  }
  experts.slots = std::min<int64_t>(kLeastExperts, experts.count);
  experts.memory_bytes = experts_bytes(expert_items(bands), static_cast<int>(experts.slots));
  return experts;
}

// As many places for experts as what is left has room for.
void add_experts(StreamPlan& plan, const MemoryBudget& budget) {
  if (plan.experts.count == 0) return;
  const std::vector<CacheItem> items = expert_items(plan.bands);
  const int64_t one = experts_bytes(items, 2) - experts_bytes(items, 1);
  InferenceFit& fit = plan.fit;
  const int64_t running = fit.weights + fit.ring + fit.kv_cache + fit.running() + fit.sampler + fit.beside;
  const int64_t more = std::clamp<int64_t>((budget.bytes - running) / one, 0, plan.experts.count - plan.experts.slots);
  plan.experts.slots += more;
  plan.experts.memory_bytes += more * one;
  fit.ring += more * one;
}

[[noreturn]] void refuse(const InferenceFit& least, const ExpertPlan& experts, const InferenceNeeds& needs,
                         const MemoryBudget& budget) {
  const std::string more = memory_remedy(budget, least.total());
  throw Error(
      ErrorKind::does_not_fit,
      "the model does not fit, even if its matrices are read anew for every token: that needs {}, there are {} "
      "({})\n  weights that cannot stream {}{}, key-value cache {} ({} sequences of {} tokens), activations and logits "
      "{}, a ring {}{}; while loading {}; threads and tables {}\n  what would fit:\n{}{}",
      format_bytes(least.total()), format_bytes(budget.bytes), budget.source, format_bytes(least.weights),
      least.adapters > 0 ? fmt::format(" ({} of adapters)", format_bytes(least.adapters)) : "",
      format_bytes(least.kv_cache), needs.sequences, needs.context, format_bytes(least.running() + least.sampler),
      format_bytes(least.ring - experts.memory_bytes),
      experts.slots > 0 ? fmt::format(", {} experts {}", experts.slots, format_bytes(experts.memory_bytes)) : "",
      format_bytes(least.loading_peak), format_bytes(least.beside), more.empty() ? "" : "  " + more + " or more\n",
      needs.sequences == 0 ? "  a smaller --batch, if activations are what is large"
                           : "  a shorter context, smaller chunks or fewer sequences, if those are what is large");
}

}  // namespace

StreamPlan plan_stream(const ModelDescription& model, const InferenceNeeds& needs, const MemoryBudget& budget,
                       const RingSettings& ring, const BandSizes& sizes) {
  StreamPlan plan{.bands = file_bands(model.spec, model.dir.path, model.dtype, sizes), .stays = {}, .ring = ring};
  plan.experts = least_experts(plan.bands);
  if (needs.vectors) leave_head_out(plan.bands);
  const std::vector<PassExtent> extents = pass_extents(plan.bands, model.dtype);
  const bool head_first = needs.sequences == 0 && needs.iteration_tokens > kHeadTile;
  // First as if the widest product stood beside itself, then as it is: what stays decides which products come in parts.
  int64_t widest = widest_matrix(plan.bands);
  for (int round = 0; round < 2; ++round) {
    plan.stays.assign(extents.size(), false);
    const InferenceFit nothing_kept = fit_of(model, needs, plan, widest);
    const int64_t least = nothing_kept.total();
    if (least > budget.bytes) refuse(nothing_kept, plan.experts, needs, budget);
    plan.stays = choose(plan.bands, extents, head_first, budget.bytes - least);
    widest = std::max(widest_of_experts(plan.bands), widest_part(plan.bands, plan.stays));
  }
  plan.fit = fit_of(model, needs, plan, widest);
  // Loading holds a ring for what stays; where that is the peak, less stays.
  for (int64_t over = plan.fit.total() - budget.bytes; over > 0; over = plan.fit.total() - budget.bytes) {
    int64_t kept = 0;
    for (size_t i = 0; i < extents.size(); ++i) kept += plan.stays[i] ? extents[i].kept_bytes : 0;
    plan.stays = choose(plan.bands, extents, head_first, kept - over);
    plan.fit = fit_of(model, needs, plan, std::max(widest, widest_part(plan.bands, plan.stays)));
    TERN_CHECK(kept > 0, "plan_stream: {} bytes over with nothing kept", over);
  }
  add_experts(plan, budget);
  plan.cache.slots.assign(2, static_cast<int>(plan.experts.slots));
  for (size_t i = 0; i < extents.size(); ++i) {
    plan.pass_bytes += extents[i].bytes;
    (plan.stays[i] ? plan.kept_bytes : plan.streamed_bytes) += plan.stays[i] ? extents[i].kept_bytes : extents[i].bytes;
  }
  return plan;
}

namespace {

// Bytes per second of products of one row with `weight`, of all its bytes.
double product_rate(const Linear& linear, int64_t bytes, DType dtype, Arena& arena) {
  const Tensor x = arena.zeros(dtype, {1, linear.in}, MemoryClass::workspace);
  const Tensor y = arena.allocate(dtype, {1, linear.out}, MemoryClass::workspace);
  const Compute compute{arena};
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    const int64_t begin_ns = real_clock().now_ns();
    linear_forward(linear, x, y, compute);
    best = std::max(best, static_cast<double>(bytes) / seconds_between(begin_ns, real_clock().now_ns()));
  }
  return best;
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
  if (!multiplies_coded(dtype)) return;
  Arena arena;
  const int64_t rows = std::max<int64_t>(64, most / stored_bytes(type, 1, m.in) / 64 * 64);
  const int64_t bytes = stored_bytes(type, rows, m.in);
  const Tensor coded = arena.zeros(DType::u8, {bytes}, MemoryClass::weights);
  rates.coded =
      product_rate({.weight = CodedWeight{{{type, coded, rows, 0, m.bands.front().tables}}}, .out = rows, .in = m.in},
                   bytes, dtype, arena);
}

double expected_bytes(const StreamPlan& plan, int64_t tokens, double hits) {
  double bytes = static_cast<double>(plan.streamed_bytes);
  for (const FileExperts& unit : plan.bands.experts) {
    const auto count = static_cast<double>(unit.up.size()), chosen = static_cast<double>(unit.top_k);
    const double distinct = count * (1 - std::pow(1 - chosen / count, static_cast<double>(tokens)));
    bytes += (1 - hits) * distinct * static_cast<double>(unit.expert_bytes());
  }
  return bytes;
}

namespace {

int64_t picoseconds(double bytes, double rate) { return rate > 0 ? static_cast<int64_t>(bytes / rate * 1e12) : 0; }

// Of one unit: the chosen experts' matrices are read one behind the other from the router's answer on, and each product waits
// for its own.
int64_t experts_ps(const FileExperts& unit, const StreamRates& rates, double hits, StreamTimes& times) {
  int64_t arrival = 0, done = 0;
  for (const auto* matrices : {&unit.up, &unit.down})
    for (int64_t k = 0; k < unit.top_k; ++k) {
      double blocks = 0, bytes = 0;
      for (const FileBand& band : matrices->front().bands) {
        blocks += static_cast<double>(blocks_of(band.extent, kAlignment).bytes);
        bytes += static_cast<double>(band.extent.bytes);
      }
      const int64_t load = picoseconds((1 - hits) * blocks, rates.disk), product = picoseconds(bytes, rates.coded);
      arrival += load;
      done = std::max(done, arrival) + product;
      times.disk_s += 1e-12 * static_cast<double>(load);
      times.products_s += 1e-12 * static_cast<double>(product);
    }
  return done;
}

}  // namespace

StreamTimes stream_times(const StreamPlan& plan, const StreamRates& rates, double hits) {
  StreamTimes times;
  std::vector<PassStep> steps;
  const auto ps = [](int64_t bytes, double rate) { return picoseconds(static_cast<double>(bytes), rate); };
  size_t at = 0;
  for (const FileMatrix& m : plan.bands.matrices)
    for (const FileBand& band : m.bands) {
      const bool stays = plan.stays[at++];
      const BlockRange blocks = blocks_of(band.extent, kAlignment);
      steps.push_back({.load_ps = stays ? 0 : ps(blocks.bytes, rates.disk),
                       .forward_ps = stays ? ps(band.extent.bytes, rates.kept) : ps(band.extent.bytes, rates.coded)});
      times.disk_s += 1e-12 * static_cast<double>(steps.back().load_ps);
      times.products_s += 1e-12 * static_cast<double>(steps.back().forward_ps);
    }
  int64_t pass_ps = steady_pass_ps(steps, plan.ring.slots);
  for (const FileExperts& unit : plan.bands.experts) pass_ps += experts_ps(unit, rates, hits, times);
  times.pass_s = 1e-12 * static_cast<double>(pass_ps);
  return times;
}

}  // namespace tern
