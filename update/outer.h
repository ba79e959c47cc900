#pragma once
// Ranks that train alone and communicate rarely: after some steps each rank's progress is averaged over the ranks, and an
// outer rule takes the average as its gradient. LocalSGD, DiLoCo, Streaming DiLoCo, NoLoCo and CO2 are settings of this rule.
//   Δ = φ - w, averaged over ranks;  u = μu + Δ;  φ -= η_o (Δ + μu)   (μ = 0: φ -= η_o Δ; heavy ball: φ -= η_o u);  w = (1-α) φ + α w
// φ: the model that all ranks have in common; w: a rank's weights. The units are cut into P fragments. Fragment p is averaged after the steps
// t with (t + ⌊pH/P⌋) mod H = 0; its average is applied τ steps later. In pairs (NoLoCo) each rank has its own φ and u, and Δ = φ − v, where v is
// the pair's mean of w. The paper writes this Δ as two terms: the pair's mean of φ − w, and the difference of φ from the pair's mean of φ.
// τ = H (CO2): a round takes its Δ first; then it applies the Δ of the round before (zero in round one), and sets w = φ.
// Sources, as their public code has it (texts not seen): Stich 2019, arXiv:1805.09767 (LocalSGD); Douillard et al. 2023, arXiv:2311.08105 (DiLoCo;
// PyTorch's Nesterov momentum); Douillard et al. 2025, arXiv:2501.18512 (P, τ, α); Kolehmainen et al. 2025, arXiv:2506.10911 (NoLoCo); Sun et
// al. 2024, ICLR (CO2, whose clipping has no effect in its code, and whose penalty is a constant there; η_o includes this constant).

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/comm.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"
#include "update/outer_codec.h"

namespace tern {

/// A rank is cut off from the others in the steps `from` to `to`, both included.
struct OuterAbsence {
  int rank = 0;
  int64_t from = 1, to = 1;
};

struct OuterConfig {
  int64_t every = 500;  // H
  double rate = 1, momentum = 0;
  bool nesterov = true;  // false: heavy ball
  bool pairs = false;    // each rank averages with one other rank, drawn anew each time
  int fragments = 1;     // P
  int64_t delay = 0;     // τ
  double mix = 0;        // α
  OuterCodec codec = OuterCodec::none;
  int codec_rank = 4;  // of OuterCodec::power_sgd
  uint64_t seed = 0;   // of the random pairs, and of the first factors
  std::vector<OuterAbsence> away{};
};

/// Shapes of a fragment's tensors, in the order of parameters.
using OuterFragment = std::vector<Shape>;
int64_t elements_in(const OuterFragment&);

/// Why the configuration cannot run with a model of `units` units, naming the option; empty: it can.
std::string outer_fault(const OuterConfig&, int units);

/// The fragment of a unit. Fragments are runs of neighbouring units.
int fragment_of(int unit, int units, int fragments);
/// sends_at: whether a fragment is averaged after the step. counts_at: whether an average of the fragment is applied after the step.
bool sends_at(const OuterConfig&, int fragment, int64_t step);
bool counts_at(const OuterConfig&, int fragment, int64_t step);
/// is_away: whether a rank is cut off in the step. present_at: the number of ranks that are not cut off.
bool is_away(const OuterConfig&, int rank, int64_t step);
int present_at(const OuterConfig&, int ranks, int64_t step);
/// For each rank, the rank with which it averages a fragment after the step. A rank that is alone or cut off is its own partner.
std::vector<int> partners_at(const OuterConfig&, int fragment, int ranks, int64_t step);
/// After `step` steps, φ of fragment 0 includes the work of all steps up to the returned one; 0: of no step. Other fragments differ.
int64_t last_step_that_counts(const OuterConfig&, int64_t step);

/// What one rank keeps: tensors of the trained parameters, in their order and in the masters' type.
struct OuterState {
  int ranks = 1, rank = 0;
  bool pairs = false;            // φ, u and the pending Δ are this rank's own; else all ranks have the same
  std::vector<int> fragment;     // of each parameter
  std::vector<Tensor> common;    // φ
  std::vector<Tensor> momentum;  // u; none where μ = 0
  std::vector<Tensor> pending;   // the averaged Δ that is not applied yet; none where τ = 0
  std::vector<Tensor> error;  // of a codec, by fragment: what this rank's codes left out so far, as one row of numbers
  std::vector<Tensor> sum_error;  // of codes, by fragment: what coding this rank's part of the average left out so far
  // Of power_sgd, for each parameter: factors (rows, r) and (columns, r), alike on all ranks; empty: the parameter travels whole.
  std::vector<Tensor> left, right;
};
/// φ begins as a copy of the masters, the rest as zeros. Bytes: MemoryClass::optimizer; outer_state_bytes of all ranks together.
OuterState make_outer_state(const OuterConfig&, std::span<const Tensor> masters, std::span<const int> units,
                            int num_units, int rank, int ranks, Arena&);
/// Bytes that all ranks together keep.
int64_t outer_state_bytes(const OuterConfig&, std::span<const OuterFragment>, int ranks, DType);
/// The number of elements that the factors of one rank have.
int64_t outer_factor_elements(const OuterConfig&, std::span<const OuterFragment>);
/// Peak bytes of the message buffers of all ranks together.
int64_t outer_staging_bytes(const OuterConfig&, std::span<const OuterFragment>, int ranks, DType);
/// Bytes that all ranks together send to average a fragment after the step: 2(n − 1)·S for n ranks; in pairs 2·S for each pair. S: bytes of
/// the fragment, of its codes and scales, or of the factors that are new in this turn. A rank that is cut off sends zeros; in pairs, nothing.
int64_t outer_fragment_bytes(const OuterConfig&, const OuterFragment&, int fragment, int ranks, int64_t step, DType);

/// What a rank needs for outer_step, from its first step to its last.
struct OuterStep {
  const OuterConfig& config;
  OuterState& state;
  Arena staging{};
  int64_t sent_bytes = 0;    // by this rank, so far
  int64_t pair_staging = 0;  // most bytes of a pair's values that waited to be summed
};
/// To be called after each step. `scratch`: tensors like the masters, zero before and after (the gradients). Returns whether masters changed.
/// A rank that is cut off adds nothing to averages. After the last step of its absence it continues from φ, so only its own work of
/// that time is lost. In pairs it keeps that work.
/// Order   an average is a sum in the tree of the ranks (comm/comm.h), divided by the number of ranks that are not cut off. Where ranks
///         send codes, the decoded vectors are summed in rank order instead. Threads and transport change no bit.
bool outer_step(OuterStep&, int64_t step, std::span<const Tensor> masters, std::span<const Tensor> scratch,
                Comm& world);

}  // namespace tern
