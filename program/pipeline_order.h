#pragma once
// Inner parts of pipeline_order, one per family of schedules; callers use program/pipeline.h.

#include "program/pipeline.h"

namespace tern {

/// How many micro-batches a zero-bubble stage may hold: `in_flight` between forward and backward, `total` between
/// forward and weight gradient. H1: P − i and P; H2: 2(P − i) − 1 and 2P − 1. With M_B ≥ M_W bytes held for the two, a
/// stage's peak is in_flight·M_B + (total − in_flight)·M_W.
struct ZeroBubbleCaps {
  int in_flight, total;
};
ZeroBubbleCaps zero_bubble_caps(PipelineSchedule, int num_stages, int stage);

/// ZB-H1 and ZB-H2 by the greedy of Qi et al.: eight settings, the least makespan, then the least bubble.
PipelineOrder zero_bubble_order(const PipelineShape&, const PipelineTimes&);
/// ZB-V: two chunks in a V, four phases by rank. num_micro < 2P − 1: the order of 2P − 1 without the superfluous ones,
/// its weight gradients moved into the gaps that they leave.
PipelineOrder zero_bubble_v_order(const PipelineShape&);
/// V-Half: a pattern of period six, squeezed.
PipelineOrder v_half_order(const PipelineShape&);

}  // namespace tern
