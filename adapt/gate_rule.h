#pragma once
// How a task's gate learns without a change for earlier tasks: GainLoRA's rule. Source: Liang & Li 2025, arXiv:2505.15424 (from notes), and
// its code (liangyanshuo/gainlora, read).
//
// A new gate copies the last; its key is orthogonal to f's earlier outputs: there cos(f(p), key) and the gate are 0.
// Each step of the two matrices and the key is projected off what these multiplied in earlier tasks, so it stays 0.

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "adapt/input_memory.h"
#include "adapt/memory_file.h"
#include "model/input_gate.h"

namespace tern {

enum class GateUpdates : uint8_t {
  exact,     // as above
  rescaled,  // as the authors' code: each row of the matrices is rescaled to its length after the unprojected step,
             // which changes results on earlier tasks' inputs
};
std::string_view name_of(GateUpdates);

/// What a gate's three linear maps multiplied in earlier tasks: p, hidden, out.
using GateMemory = std::array<InputMemory, 3>;
/// Empty memories of a gate of this size.
GateMemory no_gate_memory(int64_t width, int64_t hidden);
/// As "gate.inputs", "gate.hidden", "gate.outputs" among other memories.
void put_gate_memory(const GateMemory&, InputMemories&);
/// What put_gate_memory put there. TERN_CHECK: it is there.
GateMemory gate_memory_of(const InputMemories&);

/// (1/n)·Σ v·vᵀ of p, hidden and out over the prompts of a task.
struct GateMoments {
  explicit GateMoments(const InputGate&);
  void add(const GatePass&);
  /// Divided by the number of passes.
  std::vector<double> mean(size_t map) const;
  std::array<std::vector<double>, 3> sums;
  int64_t count = 0;
};

/// The first gate's matrices: uniform within 1/√in, by seed, name and place.
InputGate first_gate(int64_t width, int64_t hidden, uint64_t seed);
/// Sets the key of length 1 to the leading direction of f's outputs over the new task's prompts that the memory leaves free; where there
/// is none, to a free direction drawn by the seed.
void choose_key(InputGate&, const InputMemory& outputs, std::span<const double> output_moments, uint64_t seed);

/// The gradient of dgate·gate, added. At a cosine of 0, where |·| has a corner, it is 0.
void add_gate_gradient(const InputGate&, const GatePass&, double dgate, InputGate& gradient);

/// AdamW's moments of a gate.
struct GateState {
  InputGate gate, first_moment, second_moment;
};
GateState state_of(InputGate);
/// Step `number` (from 1) of AdamW (β 0.9 and 0.999, ε 1e-8, no decay), then what the memory asks of its change. The gradient becomes zero.
void step_gate(GateState&, InputGate& gradient, const GateMemory&, GateUpdates, int64_t number, double learning_rate);

/// The three lists of numbers, in a fixed order, with their names.
template <class Gate, class Visit>
void for_each_list(Gate& gate, Visit&& visit) {
  visit("first", gate.first), visit("second", gate.second), visit("key", gate.key);
}

}  // namespace tern
