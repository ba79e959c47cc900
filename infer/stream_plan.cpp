#include "infer/stream_plan.h"

#include <algorithm>

#include <fmt/format.h>

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
    for (const FileBand& band : m.bands)
      if (!band.in_integers) most = std::max(most, band.rows * m.in * size_of(dtype));
  return most;
}
// Rows that are decoded for the time of a product: a streamed band, or neighbours that stay coded.
int64_t decoded_for_a_product(const FileBands& bands, const std::vector<bool>& stays, DType dtype) {
  if (multiplies_coded(dtype)) return 0;
  const auto as_streamed = [&](const FileBand& band) {
    return band.in_integers || multiplies_as_streamed(band.type, band.head_dim, band.extent.offset, dtype);
  };
  int64_t most = 0;
  size_t at = 0;
  for (const FileMatrix& m : bands.matrices) {
    int64_t run = 0;
    for (const FileBand& band : m.bands) {
      const bool is_decoded = stays[at] && !band.in_integers && !stays_packed(band, m.in, dtype);
      run = is_decoded ? run + band.rows : 0;
      const int64_t rows = stays[at++] || as_streamed(band) ? run : band.rows;
      most = std::max(most, rows * m.in * size_of(dtype));
    }
  }
  for (const FileExperts& unit : bands.experts)
    for (const auto* matrices : {&unit.up, &unit.down})
      for (const FileMatrix& m : *matrices)
        if (!std::ranges::all_of(m.bands, as_streamed)) most = std::max(most, m.out * m.in * size_of(dtype));
  return most;
}

int64_t experts_bytes(const std::vector<CacheItem>& items, int slots) {
  const int each[] = {slots, slots};
  return items.empty() ? 0 : ExtentCache::bytes_for(items, each, kStreamAlignment) + kStreamAlignment;
}

// inference_fit, and what streaming adds to it. decoded: bytes of the rows that are decoded for a product.
InferenceFit fit_of(const ModelDescription& model, const InferenceNeeds& needs, const StreamPlan& plan,
                    int64_t decoded) {
  const DType dtype = model.dtype;
  InferenceFit fit = inference_fit(model.spec, dtype, needs, bytes_in_memory(plan.bands, plan.stays, dtype));
  const auto slots = [&](bool stays) -> int64_t {
    const std::vector<Extent> extents = extents_of(plan.bands, plan.stays, stays);
    return extents.empty() ? 0 : CyclicRing::allocation_for(extents, plan.ring.slots, kStreamAlignment);
  };
  fit.ring = slots(false) + plan.experts.memory_bytes;
  fit.loading_peak =
      std::max(fit.loading_peak + fit.ring, fit.weights + slots(true) + largest_decoded(plan.bands, dtype));
  const int64_t tokens = needs.iteration_tokens;
  const FileBand& table = plan.bands.table;
  fit.activations += std::max(decoded, table.rows > 0 ? tokens * (table.extent.bytes / table.rows) : 0);
  if (!needs.vectors) fit.logits += decoded;
  fit.beside += kThreadBytes * plan.ring.threads * (plan.experts.count > 0 ? 2 : 1);
  return fit;
}

// Whatever stays.
int64_t most_decoded(const FileBands& bands, size_t count, DType dtype) {
  const auto decoded = [&](bool stays) { return decoded_for_a_product(bands, std::vector<bool>(count, stays), dtype); };
  return std::max(decoded(false), decoded(true));
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

// Errors: those of ring_window.
void take_window(const ModelSpec& spec, const InferenceNeeds& needs, StreamPlan& plan) {
  if (!needs.window) return;
  plan.window = needs.window;
  plan.ring.window = ring_window(spec, plan.bands, *needs.window);
  plan.ring.slots = slots_for(plan.ring.window);
}

[[noreturn]] void refuse(const InferenceFit& least, const ExpertPlan& experts, const InferenceNeeds& needs,
                         const MemoryBudget& budget) {
  const std::string more = memory_remedy(budget, least.total());
  throw Error(
      ErrorKind::does_not_fit,
      "{}: that needs {}, there are {} ({})\n  weights that cannot stream {}{}, key-value cache {} ({} sequences of {} "
      "tokens), activations and logits "
      "{}, a ring {}{}; while loading {}; threads and tables {}\n  what would fit:\n{}{}{}",
      needs.window ? fmt::format("a window of {} does not fit", describe(*needs.window))
                   : "the model does not fit, even if its matrices are read anew for every token",
      format_bytes(least.total()), format_bytes(budget.bytes), budget.source, format_bytes(least.weights),
      least.adapters > 0 ? fmt::format(" ({} of adapters)", format_bytes(least.adapters)) : "",
      format_bytes(least.kv_cache), needs.sequences, needs.context, format_bytes(least.running() + least.sampler),
      format_bytes(least.ring - experts.memory_bytes),
      experts.slots > 0 ? fmt::format(", {} experts {}", experts.slots, format_bytes(experts.memory_bytes)) : "",
      format_bytes(least.loading_peak), format_bytes(least.beside), more.empty() ? "" : "  " + more + " or more\n",
      needs.window ? "  fewer blocks or layers in --stream-window\n" : "",
      needs.sequences == 0 ? "  a smaller --batch, if activations are what is large"
                           : "  a shorter context, smaller chunks or fewer sequences, if those are what is large");
}

}  // namespace

StreamPlan plan_stream(const ModelDescription& model, const InferenceNeeds& needs, const MemoryBudget& budget,
                       const RingSettings& ring, const BandSizes& sizes) {
  StreamPlan plan{.bands = file_bands(model.spec, model.dir.path, model.dtype, sizes, needs.in_integers),
                  .dtype = model.dtype,
                  .stays = {},
                  .ring = ring};
  plan.experts = least_experts(plan.bands);
  if (needs.vectors) leave_head_out(plan.bands);
  take_window(model.spec, needs, plan);
  const std::vector<PassExtent> extents = pass_extents(plan.bands, model.dtype);
  const bool head_first = needs.sequences == 0 && needs.iteration_tokens > kHeadTile;
  // First as if the most were decoded, then as it is: what stays decides which rows are decoded together.
  const std::vector<bool> none(extents.size(), false);
  const auto decoded_now = [&] { return decoded_for_a_product(plan.bands, plan.stays, model.dtype); };
  plan.stays = none;
  int64_t decoded = needs.window ? decoded_now() : most_decoded(plan.bands, extents.size(), model.dtype);
  for (int round = 0; round < 2; ++round) {
    plan.stays = none;
    const InferenceFit nothing_kept = fit_of(model, needs, plan, decoded);
    const int64_t least = nothing_kept.total();
    if (least > budget.bytes) refuse(nothing_kept, plan.experts, needs, budget);
    if (needs.window) break;
    plan.stays = choose(plan.bands, extents, head_first, budget.bytes - least);
    decoded = decoded_now();
  }
  plan.fit = fit_of(model, needs, plan, decoded);
  // Loading holds a ring for what stays; where that is the peak, less stays.
  for (int64_t over = plan.fit.total() - budget.bytes; over > 0; over = plan.fit.total() - budget.bytes) {
    int64_t kept = 0;
    for (size_t i = 0; i < extents.size(); ++i) kept += plan.stays[i] ? extents[i].kept_bytes : 0;
    plan.stays = choose(plan.bands, extents, head_first, kept - over);
    decoded = std::max(decoded, decoded_now());
    plan.fit = fit_of(model, needs, plan, decoded);
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

}  // namespace tern
