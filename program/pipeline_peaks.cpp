#include "program/pipeline_peaks.h"

#include <algorithm>

namespace tern {

std::vector<PipelinePeak> pipeline_peak_moments(const PipelineShape& shape, const PipelineOrder& order,
                                                std::span<const int64_t> held, std::span<const int64_t> held_weight,
                                                std::span<const int64_t> transient) {
  const bool split = splits_backward(shape.schedule);
  std::vector<PipelinePeak> peaks;
  for (const auto& ops : order) {
    int64_t now = 0;
    PipelinePeak peak;
    for (const PipelineOp& op : ops) {
      const int64_t before = now;
      if (op.phase == Phase::forward) now += held[op.stage];
      if (op.phase == Phase::backward) now += (split ? held_weight[op.stage] : 0) - held[op.stage];
      if (op.phase == Phase::weight) now -= held_weight[op.stage];
      if (const int64_t most = std::max(before, now); most + transient[op.stage] > peak.held + peak.transient)
        peak = {most, transient[op.stage]};
    }
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<int64_t> pipeline_peaks(const PipelineShape& shape, const PipelineOrder& order,
                                    std::span<const int64_t> held, std::span<const int64_t> held_weight,
                                    std::span<const int64_t> transient) {
  std::vector<int64_t> bytes;
  for (const PipelinePeak& p : pipeline_peak_moments(shape, order, held, held_weight, transient))
    bytes.push_back(p.held + p.transient);
  return bytes;
}

}  // namespace tern
