#pragma once
// Bytes of a run whose ranks have unlike layers or parts of matrices (RankPlace::in_mesh), all ranks together: counted from what each of
// them holds.

#include "program/program.h"
#include "train/fit.h"

namespace tern {

/// Fills in weights, gradients, optimizer, the beginning and messages of `predicted`. all: a step of every stage (program/lower.h), with as many
/// micro-batches as it takes to reach its peak.
/// Errors  those of shares_of.
void predict_mesh(const ModelSpec&, const TrainSettings&, const Program& all, PredictedMemory& predicted);

/// Whether rank 0 has the whole model only while it evaluates and writes it: with tensor groups,
/// and with ZeRO 3 over several ranks, in stages too. Otherwise rank 0 always keeps one.
bool is_whole_for_a_while(const TrainSettings&);

}  // namespace tern
