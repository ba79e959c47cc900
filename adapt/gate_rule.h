#pragma once
// How a task's gate learns so that earlier tasks do not notice: GainLoRA's rule. Source: Liang & Li 2025, arXiv:2505.15424 (from notes), and
// its code (liangyanshuo/gainlora, read).
//
// A gate depends on a prompt's mean p by cos(f(p), key) alone, where f has two matrices; at a cosine of 0 the gate is 0 (model/input_gate.h).
// A new gate begins as a copy of the last, with a key that is orthogonal to all outputs of f on earlier tasks' prompts, so it is 0 on
// those. Each step of the two matrices and the key is projected onto the complement of what they multiplied in earlier tasks, so the
// gate stays 0 there.

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "adapt/input_memory.h"
#include "adapt/memory_file.h"
#include "model/input_gate.h"

namespace tern {

/// How a step is projected.
enum class GateUpdates : uint8_t {
  exact,  // as above
  // As the authors' code does it: after the projection each row of the matrices is scaled to the length that it had after the step without
  // projection. This changes results on earlier tasks' inputs.
  rescaled,
};
std::string_view name_of(GateUpdates);

/// What the three maps of a gate multiplied in earlier tasks: p (the first matrix), hidden (the second matrix), out (the key).
using GateMemory = std::array<InputMemory, 3>;
/// Empty memories of a gate with prompts of `width` numbers and `hidden` hidden numbers.
GateMemory no_gate_memory(int64_t width, int64_t hidden);
/// Adds the memories to others, under the names "gate.inputs", "gate.hidden" and "gate.outputs".
void put_gate_memory(const GateMemory&, InputMemories&);
/// The memories that put_gate_memory added. Errors: TERN_CHECK: there are none.
GateMemory gate_memory_of(const InputMemories&);

/// Second moments of what the three maps multiply over the prompts of a task.
struct GateMoments {
  explicit GateMoments(const InputGate&);
  /// Adds v·vᵀ of p, hidden and out of one pass.
  void add(const GatePass&);
  /// (1/n)·Σ v·vᵀ of one map over the passes so far.
  std::vector<double> mean(size_t map) const;
  std::array<std::vector<double>, 3> sums;
  int64_t count = 0;
};

/// The gate of the first task. Its matrices are drawn uniformly from ±1/√(their width), by seed, name and place.
InputGate first_gate(int64_t width, int64_t hidden, uint64_t seed);
/// Sets the key, of length 1, to the leading direction of f's outputs over the new task's prompts among those that the memory leaves free. If
/// the outputs have no such direction, the seed draws a free one. `output_moments`: GateMoments::mean of the key.
void choose_key(InputGate&, const InputMemory& outputs, std::span<const double> output_moments, uint64_t seed);
/// Adds to `gradient` the gradient of dgate·gate with respect to the gate's numbers. At a cosine of 0, where |·| has a corner,
/// that gradient is 0.
void add_gate_gradient(const InputGate&, const GatePass&, double dgate, InputGate& gradient);

/// A gate and AdamW's moments of it.
struct GateState {
  InputGate gate, first_moment, second_moment;
};
/// The state with zero moments.
GateState state_of(InputGate);
/// Step `number` (from 1) of AdamW (β 0.9 and 0.999, ε 1e-8, no decay), whose change of the gate is projected as `GateUpdates` says. Sets the
/// gradient to zero.
void step_gate(GateState&, InputGate& gradient, const GateMemory&, GateUpdates, int64_t number, double learning_rate);

/// Calls visit(name, numbers) for the first matrix, the second matrix and the key, in this order.
template <class Gate, class Visit>
void for_each_list(Gate& gate, Visit&& visit) {
  visit("first", gate.first), visit("second", gate.second), visit("key", gate.key);
}

}  // namespace tern
