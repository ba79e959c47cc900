#pragma once
// The bytes that each device holds at its peak in a pipeline's order.

#include <cstdint>
#include <span>
#include <vector>

#include "program/pipeline.h"

namespace tern {

/// Bytes of each device at the peak of an order, without persistent bytes: the maximum over time of Σ held·(micro-batches
/// between forward and backward) + Σ held_weight·(micro-batches between backward and weight gradient) + transient of the
/// running stage. A forward adds `held` at its start. A backward removes `held` at its end and, if the schedule splits
/// backward passes, adds `held_weight`; the weight gradient removes `held_weight` at its end. So an operation counts the
/// larger of what is held before and after it.
/// Shapes  held, held_weight, transient (virtual stages), result (devices).
std::vector<int64_t> pipeline_peaks(const PipelineShape&, const PipelineOrder&, std::span<const int64_t> held,
                                    std::span<const int64_t> held_weight, std::span<const int64_t> transient);
/// A device's peak in its two parts: held, with held_weight in it, and transient.
struct PipelinePeak {
  int64_t held = 0, transient = 0;
};
/// The same peaks, each at the first operation that reaches it.
std::vector<PipelinePeak> pipeline_peak_moments(const PipelineShape&, const PipelineOrder&,
                                                std::span<const int64_t> held, std::span<const int64_t> held_weight,
                                                std::span<const int64_t> transient);

}  // namespace tern
