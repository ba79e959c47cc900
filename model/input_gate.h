#pragma once
// A gate says how much a branch counts for a sequence, given the sequence's prompt: g = |2σ(4·cos(f(p), key)) - 1|, where p is the
// mean of the prompt's embeddings and f(p) = second·SiLU(first·p). Source: GainLoRA, Liang & Li 2025, arXiv:2505.15424 (from notes),
// and its code (liangyanshuo/gainlora, read). There p is a sum divided by the padded length, here by the prompt's own length.

#include <cstdint>
#include <span>
#include <vector>

#include "model/weights.h"

namespace tern {

/// All numbers are f64, whatever type the model is computed in.
struct InputGate {
  int64_t width = 0, hidden = 0;           // width: of the model; hidden: of the gate's hidden layer
  std::vector<double> first, second, key;  // (hidden, width); (width, hidden); (width)
};

/// What a gate computed from p, kept for the gradients.
struct GatePass {
  std::vector<double> p, sum, hidden, out;  // sum = first·p, hidden = SiLU(sum), out = second·hidden
  double cosine = 0;                        // of out and the key; 0 where one of them is the zero vector
  double gate = 0;                          // in [0, 1)
};
/// Order: each sum adds its numbers in their order, so the bits depend on gate and p alone.
GatePass run_gate(const InputGate&, std::vector<double> p);

/// Returns p: the first unit's output, averaged over the tokens. That output is a token's row, plus its position's row if positions
/// are learned, normed if the unit has a norm. Positions count from 0. Order: token by token, in f64. Errors: TERN_CHECK: no token.
std::vector<double> mean_embedding(const ModelSpec&, const ModelWeights&, std::span<const int32_t> tokens);

}  // namespace tern
