#pragma once
// The validator: what must hold for any Program, whoever generated or rewrote it. A run validates its Program before
// the first step.

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"

namespace tern {

/// What a Program is of: an optimizer step; the forward of an evaluation; steps of inference.
enum class ProgramKind : uint8_t { training, forward, inference };

/// The rules that a Program breaks: one sentence each, which names the instruction by its place in the list. Empty: the
/// Program is sound.
/// Fields   rank (a device of the pipeline), unit, micro and peer in range; no negative size.
/// Buffers  per rank, in list order. No instruction allocates a buffer that is alive. Only GATHER and LOAD allocate a freed buffer again.
///          What is read or freed is alive. No buffer stands twice in an instruction's reads, nor in its allocates, nor in its
///          frees. None is freed while an instruction on another resource may read it. At the end only resident ones are alive.
/// Messages every SEND has its RECV and every RECV its SEND; no instructions wait for each other in a circle (the sentence then names them).
/// Order    per micro-batch: FORWARD(u) after FORWARD(u−1); BACKWARD_INPUT(u) after FORWARD(u) and BACKWARD_INPUT(u+1);
///          RECOMPUTE(u) between FORWARD(u) and BACKWARD_INPUT(u), at most once; BACKWARD_WEIGHT(u) after
///          BACKWARD_INPUT(u) (the embedding's: after BACKWARD_INPUT(1)). If the neighbour u−1 or u+1 is on another
///          rank, the instruction reads the neighbour's result instead. The passes, MERGEs and UPDATE of a unit are on one rank.
/// Bits     instructions that add to one gradient come in the order of micro-batches: a unit's BACKWARD_WEIGHTs; the head's
///          FORWARDs, which add to the projection's gradient and to the loss.
/// Needs    each pass has in `reads` all buffers that its computation uses: x, saved, dy, left.
/// Groups   per unit and micro-batch m at most one MERGE: after the unit's BACKWARD_WEIGHT of m and before its
///          BACKWARD_WEIGHT of m + 1, the head's also before the head's FORWARD of m + 1. A MERGE reads only kept sums of
///          its unit, frees what it reads, and keeps one sum at most.
/// Step     REDUCE, SCATTER after the unit's last BACKWARD_WEIGHT (with a micro-batch: that micro-batch's). A sum
///          on another resource than the compute waits for that BACKWARD_WEIGHT or a later instruction. NORM waits for the rank's last such
///          sum. NORM after all BACKWARD_WEIGHTs of the rank; after NORM only UPDATEs. UPDATE after NORM, or, if UPDATE
///          reads a `summand`, after the unit's last BACKWARD_WEIGHT. No pass or MERGE after the unit's UPDATE.
/// Whole    every (unit, micro) runs FORWARD, BACKWARD_INPUT (not the embedding) and BACKWARD_WEIGHT exactly once; each rank
///          has one NORM; every unit has exactly one UPDATE.
/// Rows     only FORWARD, RECOMPUTE and BACKWARD_INPUT send experts' rows; either all of these send rows in a unit, or none.
///          A FORWARD's routed_bytes divided by its output's bytes is one ratio for all FORWARDs of a unit. A RECOMPUTE has its
///          FORWARD's routed_bytes. A BACKWARD_INPUT's routed_bytes divided by its FORWARD's is one ratio for the whole
///          Program, in (1, 2]. told_bytes are equal in a unit's FORWARDs and RECOMPUTEs, more than 0 if it sends rows, and
///          0 in BACKWARD_INPUTs.
/// Parts    of a spread head (Program::head_parts): part d is on rank d. Its FORWARD reads the norm's output. The BACKWARD_INPUT of the last
///          part, the only one, reads the outputs of all parts, comes in the order of micro-batches and before the norm's
///          BACKWARD_INPUT. The BACKWARD_WEIGHT of a part reads the part's gradient.
/// A forward program has FORWARD alone. A program of inference (program/inference_program.h) has FORWARD, LOAD and STORE, on one rank; for it:
/// Whole    in every step every unit runs its FORWARD, except that the head may be left out. FORWARDs come in the order of steps, units and
///          parts, each once; a unit has as many parts in every step, beside those that use experts.
/// Extents  each LOAD brings one extent, for the FORWARD part of its unit, micro and part. That part reads it and frees it, and no other does.
/// Keys     each other LOAD brings a layer's keys. Part 0 of the layer's FORWARD reads them; a STORE behind the last part frees them, and waits for that
///          part. No LOAD of a step's keys begins before the last FORWARD of the step before has ended.
/// Experts  a LOAD of an expert, or of what is expected of one, waits for a part of its unit's FORWARD in its step: the router's, or a later one. A part of
///          the step uses it. A part uses one expert of its unit at most, and behind it no part of the unit uses none. It frees what is
///          expected of one; of experts, a LOAD frees the one whose slot it takes. No more experts are alive than there are resident expert_slots.
/// Slots    the n-th LOAD of extents, or of keys, begins only after the (n − slots)-th one's buffer was freed: it waits for the instruction that
///          freed it, or for one behind that on the same resource. `slots`: as many as resident buffers extent_slot, or keys_slot.
std::vector<std::string> validate(const Program&, ProgramKind = ProgramKind::training);

/// Checks that validate finds nothing. Errors: TERN_CHECK with the first few sentences.
void check_valid(const Program&, ProgramKind = ProgramKind::training);

}  // namespace tern
