#pragma once
// The search under the simple objective as a mixed-integer programme, written as an LP file that any solver can read. It
// shares no code with the search, so it checks the search's optimum independently.
//
// L layers, P stages, S strategies, c micro-batches. One unit flows through nodes (layer u, stage i, strategy s): arcs
// (u, i, s) → (u + 1, i, s') reshard inside a stage, arcs (u, i, s) → (u + 1, i + 1, s') cross to the next. So stages are
// contiguous and in order by construction. Each stage has one memory constraint per tier, and times f_i, b_i. T is at least
// every f_i + b_i and every link's o_j; minimise Σ(f + b) + Σo + (c − 1)·T. Binaries: at most 2·S + (L − 1)·S²·(2P − 1).

#include <string>

#include "plan/instance.h"

namespace tern {

/// The LP file. Errors: usage: any schedule but gpipe and 1f1b (PipelineScheduleTraits::certified) with one stage on a
/// device.
std::string flow_lp(const Instance&);

}  // namespace tern
