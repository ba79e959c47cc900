#pragma once
// What a pipeline's order holds on each device at its peak.

#include <cstdint>
#include <span>
#include <vector>

#include "program/pipeline.h"

namespace tern {

/// Bytes of each device at the peak of an order: the maximum over time of Σ held·(micro-batches between forward and
/// backward) + Σ held_weight·(between backward and weight gradient) + transient of the running stage; persistent left
/// out. A forward holds from its start; a backward lets go of `held` at its end and, where the schedule splits it,
/// turns it into `held_weight`; the weight gradient lets go of that at its end. So an operation counts the larger of
/// what is held before and after it.
/// Shapes  held, held_weight, transient (virtual stages), result (devices).
std::vector<int64_t> pipeline_peaks(const PipelineShape&, const PipelineOrder&, std::span<const int64_t> held,
                                    std::span<const int64_t> held_weight, std::span<const int64_t> transient);
/// A device's peak in its two parts.
struct PipelinePeak {
  int64_t held = 0, transient = 0;
};
/// The same peaks, each at the first operation that reaches it.
std::vector<PipelinePeak> pipeline_peak_moments(const PipelineShape&, const PipelineOrder&,
                                                std::span<const int64_t> held, std::span<const int64_t> held_weight,
                                                std::span<const int64_t> transient);

}  // namespace tern
