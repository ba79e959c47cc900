#pragma once
// How much a branch counts for a sequence, by what the sequence begins with: a gate g = |2σ(4·cos(f(p), key)) - 1| of the mean p of the
// prompt's embeddings, f(p) = second·SiLU(first·p). Source: GainLoRA, Liang & Li 2025, arXiv:2505.15424 (from notes), and its code
// (liangyanshuo/gainlora, read): there p is a sum divided by the padded length, here by the prompt's own.

#include <cstdint>
#include <span>
#include <vector>

#include "model/weights.h"

namespace tern {

/// All numbers in f64, in every type that the model is computed in.
struct InputGate {
  int64_t width = 0, hidden = 0;           // width: of the model
  std::vector<double> first, second, key;  // (hidden, width); (width, hidden); (width)
};

/// What a gate made of p, for the gradients.
struct GatePass {
  std::vector<double> p, sum, hidden, out;  // sum = first·p, hidden = SiLU(sum), out = second·hidden
  double cosine = 0;                        // of out and the key; 0 where one of them is the zero vector
  double gate = 0;                          // in [0, 1)
};
/// Order: each sum adds its numbers in their order, so the bits depend on gate and p alone.
GatePass run_gate(const InputGate&, std::vector<double> p);

/// p: the mean over the tokens of the first unit's output: a token's row, plus its position's row if positions are learned,
/// normed if the unit has a norm. Positions count from 0. Order: token by token, in f64. Errors: TERN_CHECK: no token.
std::vector<double> mean_embedding(const ModelSpec&, const ModelWeights&, std::span<const int32_t> tokens);

}  // namespace tern
