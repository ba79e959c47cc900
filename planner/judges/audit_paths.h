#pragma once
// Paths through a pipeline's operations, for the audit's bounds.

#include <cstddef>
#include <vector>

#include "program/pipeline.h"
#include "program/pipeline_run.h"

namespace tern {

/// How often a mixture of paths passes each stage and device on average. Any path gives a lower bound of the makespan,
/// and so does any mixture.
struct Passes {
  std::vector<double> forward, gradient, weight, sync;  // virtual stages
  std::vector<double> over, back;                       // links to the next stage: forward, backward
  std::vector<double> begin, update;                    // devices
};
/// Passes that are all zero.
Passes no_passes(size_t stages, size_t devices);

/// Times of the stages, links and devices of Passes, averaged over a mixture of assignments.
struct Amounts {
  std::vector<double> forward, gradient, weight, sync, over, back, begin, update;
};

/// a += share · (b − a), number by number.
void mix(Passes& a, const Passes& b, double share);
void mix(Amounts& a, const Amounts& b, double share);

/// The longest path through the operations at these times, counted by stage and device.
Passes longest_path(const PipelineShape&, const PreparedPipeline&, const Amounts&);

}  // namespace tern
