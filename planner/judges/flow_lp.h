#pragma once
// The search under the simple objective as a mixed-integer programme, written as an LP file that any solver reads. It
// shares nothing with the search: an independent check of its optimum.
//
// Flow of one unit through nodes (layer u, stage i, strategy s): arcs (u, i, s) → (u + 1, i, s') reshard inside a
// stage, arcs (u, i, s) → (u + 1, i + 1, s') cross to the next. Contiguity and the order of stages hold by
// construction. Per stage a memory row for each tier and times f_i, b_i; T is above every f_i + b_i and every link's
// o_j; minimise Σ(f + b) + Σo + (c − 1)·T. Binaries: at most 2·S + (L − 1)·S²·(2P − 1).

#include <string>

#include "plan/instance.h"

namespace tern {

/// The LP file. Errors: usage, for a schedule with several stages on a device or split backwards: the encoding knows
/// gpipe and 1f1b.
std::string flow_lp(const Instance&);

}  // namespace tern
