#include "apps/stream_bands.h"

#include <limits>

#include "base/error.h"
#include "infer/stream_times.h"

namespace tern {
namespace {

constexpr BandSizes kBandsTried[] = {{}, {.most = 512 << 10}, kShortestBands};

// A window's ring is what was asked for.
bool is_short_enough(const StreamPlan& plan, const MemoryBudget& budget) {
  return plan.window || plan.fit.ring - plan.experts.memory_bytes <= budget.bytes / 8;
}

}  // namespace

std::optional<StreamPlan> stream_if_fits(const ModelDescription& model, const InferenceNeeds& needs,
                                         const MemoryBudget& budget) {
  std::optional<StreamPlan> plan;
  for (const BandSizes& bands : kBandsTried) {
    if (plan && is_short_enough(*plan, budget)) break;
    try {
      plan = plan_stream(model, needs, budget, {}, bands);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::does_not_fit) throw;
    }
  }
  return plan;
}

int64_t chunk_of_fewest_bytes(const ModelDescription& model, InferenceNeeds needs, const MemoryBudget& budget,
                              int64_t prompt, int64_t tokens, int64_t chunk) {
  int64_t best = chunk;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t pieces = 1; pieces <= 16 && pieces <= prompt; ++pieces) {
    const int64_t size = (prompt + pieces - 1) / pieces;
    needs.iteration_tokens = iteration_tokens(prompt, size, needs.sequences);
    const auto plan = stream_if_fits(model, needs, budget);
    if (!plan) continue;
    const double bytes = expected_bytes(*plan, size) * static_cast<double>(pieces) +
                         expected_bytes(*plan, 1) * static_cast<double>(tokens);
    if (bytes < least) best = size, least = bytes;
  }
  return best;
}

}  // namespace tern
