#pragma once
// Ranks that train alone and rarely talk: after some steps of their own they average how far they came, and an outer rule takes that as its
// gradient. LocalSGD, DiLoCo and Streaming DiLoCo are settings of it.
//   Δ = φ - w, averaged over ranks;  u = μu + Δ;  φ -= η_o (Δ + μu)   (μ = 0: φ -= η_o Δ);  w = (1-α) φ + α w
// φ: the model that all ranks have in common. Its units are cut into P fragments, each with its turn: fragment p is averaged after steps t with
// (t + ⌊pH/P⌋) mod H = 0, and what came of it counts τ steps later.
// Source: Stich 2019, arXiv:1805.09767 (LocalSGD); Douillard et al. 2023, arXiv:2311.08105 (DiLoCo: Nesterov's momentum as PyTorch's SGD has
// it); Douillard et al. 2025, arXiv:2501.18512 (fragments, τ and α). Texts not seen; the formulas are those of their public code.

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

struct OuterConfig {
  int64_t every = 500;  // H
  double rate = 1, momentum = 0;
  int fragments = 1;  // P
  int64_t delay = 0;  // τ
  double mix = 0;     // α
  OuterCodec codec = OuterCodec::none;
};

/// Empty: it can run. Otherwise why not, naming the option, of a model of so many units.
std::string outer_fault(const OuterConfig&, int units);

/// The fragment of a unit: neighbours share one.
int fragment_of(int unit, int units, int fragments);
/// Whether a fragment is averaged after the step; whether what came of it counts then.
bool sends_at(const OuterConfig&, int fragment, int64_t step);
bool counts_at(const OuterConfig&, int fragment, int64_t step);

/// Of one rank; tensors of the trained parameters in their order, of the masters' type.
struct OuterState {
  int ranks = 1, rank = 0;
  std::vector<int> fragment;     // of each parameter
  std::vector<Tensor> common;    // φ
  std::vector<Tensor> momentum;  // u; none where μ = 0
  std::vector<Tensor> pending;   // the averaged Δ that does not count yet; none where τ = 0
  std::vector<Tensor> error;  // of a codec, by fragment: what this rank's codes left out so far, as one row of numbers
  std::vector<Tensor> sum_error;  // of a codec, by fragment: the same of the part of the average that this rank makes
};
/// φ begins as the masters are; the rest is zero. Bytes: MemoryClass::optimizer, outer_state_bytes.
OuterState make_outer_state(const OuterConfig&, std::span<const Tensor> masters, std::span<const int> units,
                            int num_units, int rank, int ranks, Arena&);
/// What all ranks together keep, of parameters of so many elements by fragment.
int64_t outer_state_bytes(const OuterConfig&, std::span<const int64_t> fragments, int ranks, DType);
/// What all ranks' messages wait in, at their most.
int64_t outer_staging_bytes(const OuterConfig&, std::span<const int64_t> fragments, int ranks, DType);
/// Bytes that all ranks together send to average a fragment of so many elements: of a codec its codes and scales, twice, to all others.
int64_t outer_fragment_bytes(const OuterConfig&, int64_t elements, int ranks, DType);

/// What ranks do beside their own steps.
struct OuterStep {
  const OuterConfig& config;
  OuterState& state;
  Arena staging{};
  int64_t sent_bytes = 0;  // by this rank, so far
};
/// After the step of each rank. `scratch`: tensors like the masters, zero before and after (the gradients). Returns whether masters changed.
/// Order   averages are sums in the tree of the ranks (comm/comm.h) times 1/ranks; of a codec decoded vectors, in rank order. Threads and
///         transport change no bit.
bool outer_step(OuterStep&, int64_t step, std::span<const Tensor> masters, std::span<const Tensor> scratch,
                Comm& world);

}  // namespace tern
