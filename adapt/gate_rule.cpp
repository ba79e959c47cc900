#include "adapt/gate_rule.h"

#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "kernels/ref/optimizer_ref.h"

namespace tern {
namespace {

using List = std::vector<double>;
constexpr const char* kMaps[] = {"gate.inputs", "gate.hidden", "gate.outputs"};

InputGate zeros_like(const InputGate& gate) {
  InputGate zeros = gate;
  for_each_list(zeros, [](const char*, List& list) { list.assign(list.size(), 0.0); });
  return zeros;
}

// to (rows, columns) += a·bᵀ
void add_outer(std::span<const double> a, std::span<const double> b, List& to) {
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b.size(); ++j) to[i * b.size() + j] += a[i] * b[j];
}

// Rows whose change is free of the memory.
void keep_free(const InputMemory& memory, const List& before, bool rescale, List& now) {
  const auto width = static_cast<size_t>(memory.dim);
  List change(now.size());
  for (size_t i = 0; i < now.size(); ++i) change[i] = now[i] - before[i];
  change = free_part(memory, change);
  for (size_t row = 0; row < now.size(); row += width) {
    const double length = std::sqrt(dot(std::span(now).subspan(row, width), std::span(now).subspan(row, width)));
    for (size_t i = row; i < row + width; ++i) now[i] = before[i] + change[i];
    const double left = std::sqrt(dot(std::span(now).subspan(row, width), std::span(now).subspan(row, width)));
    if (rescale && left > 0)
      for (size_t i = row; i < row + width; ++i) now[i] *= length / left;
  }
}

void draw_uniform(List& list, int64_t in, RngKey key) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  for (size_t i = 0; i < list.size(); ++i) list[i] = bound * (2 * random_uniform(key, i) - 1);
}

}  // namespace

std::string_view name_of(GateUpdates updates) { return updates == GateUpdates::exact ? "exact" : "rescaled"; }

GateMemory no_gate_memory(int64_t width, int64_t hidden) {
  GateMemory memory;
  memory[0].dim = memory[2].dim = width, memory[1].dim = hidden;
  return memory;
}

void put_gate_memory(const GateMemory& memory, InputMemories& to) {
  for (size_t map = 0; map < memory.size(); ++map) to[kMaps[map]] = memory[map];
}

GateMemory gate_memory_of(const InputMemories& from) {
  GateMemory memory;
  for (size_t map = 0; map < memory.size(); ++map) {
    const auto found = from.find(kMaps[map]);
    TERN_CHECK(found != from.end(), "memories of earlier tasks lack '{}'", kMaps[map]);
    memory[map] = found->second;
  }
  return memory;
}

GateMoments::GateMoments(const InputGate& gate) {
  const auto width = static_cast<size_t>(gate.width), hidden = static_cast<size_t>(gate.hidden);
  sums = {List(width * width), List(hidden * hidden), List(width * width)};
}

void GateMoments::add(const GatePass& pass) {
  const List* const of[] = {&pass.p, &pass.hidden, &pass.out};
  for (size_t map = 0; map < sums.size(); ++map) add_outer(*of[map], *of[map], sums[map]);
  ++count;
}

std::vector<double> GateMoments::mean(size_t map) const {
  List mean = sums[map];
  for (double& x : mean) x /= static_cast<double>(count);
  return mean;
}

InputGate first_gate(int64_t width, int64_t hidden, uint64_t seed) {
  const auto size = static_cast<size_t>(width * hidden);
  InputGate gate{.width = width, .hidden = hidden, .first = List(size), .second = List(size), .key = {}};
  gate.key.resize(static_cast<size_t>(width));
  draw_uniform(gate.first, width, {seed, hash_name("adapt/gate/first")});
  draw_uniform(gate.second, hidden, {seed, hash_name("adapt/gate/second")});
  return gate;
}

void choose_key(InputGate& gate, const InputMemory& outputs, std::span<const double> output_moments, uint64_t seed) {
  gate.key = task_directions(outputs, output_moments, 1, InfloraMode::paper);
  if (dot(gate.key, gate.key) > 0) return;
  for (size_t i = 0; i < gate.key.size(); ++i) gate.key[i] = random_normal({seed, hash_name("adapt/gate/key")}, i);
  gate.key = free_part(outputs, gate.key);
  const double length = std::sqrt(dot(gate.key, gate.key));
  for (double& x : gate.key) x /= length;
}

// t = tanh(2c), g = |t|:  dc = dg·sign(t)·2(1 - t²);  with o = out, k = key:
// do = dc·(k/|k| - c·o/|o|)/|o|,  dk = dc·(o/|o| - c·k/|k|)/|k|;  dsecond = do·hiddenᵀ,  dhidden = secondᵀ·do,
// dsum = dhidden·σ(1 + s(1 - σ)) with σ of s = sum,  dfirst = dsum·pᵀ.
void add_gate_gradient(const InputGate& gate, const GatePass& pass, double dgate, InputGate& gradient) {
  if (pass.cosine == 0) return;
  const double t = std::tanh(2 * pass.cosine), dcosine = dgate * (t > 0 ? 2 : -2) * (1 - t * t);
  const double out = std::sqrt(dot(pass.out, pass.out)), key = std::sqrt(dot(gate.key, gate.key));
  List dout(pass.out.size());
  for (size_t i = 0; i < dout.size(); ++i) {
    dout[i] = dcosine * (gate.key[i] / key - pass.cosine * pass.out[i] / out) / out;
    gradient.key[i] += dcosine * (pass.out[i] / out - pass.cosine * gate.key[i] / key) / key;
  }
  add_outer(dout, pass.hidden, gradient.second);
  List dsum(pass.hidden.size());
  for (size_t i = 0; i < dout.size(); ++i)
    for (size_t j = 0; j < dsum.size(); ++j) dsum[j] += gate.second[i * dsum.size() + j] * dout[i];
  for (size_t j = 0; j < dsum.size(); ++j) {
    const double sigmoid = 1 / (1 + std::exp(-pass.sum[j]));
    dsum[j] *= sigmoid * (1 + pass.sum[j] * (1 - sigmoid));
  }
  add_outer(dsum, pass.p, gradient.first);
}

GateState state_of(InputGate gate) {
  GateState state{.gate = std::move(gate), .first_moment = {}, .second_moment = {}};
  state.first_moment = state.second_moment = zeros_like(state.gate);
  return state;
}

void step_gate(GateState& state, InputGate& gradient, const GateMemory& memory, GateUpdates updates, int64_t number,
               double learning_rate) {
  const AdamwStep step{.learning_rate = learning_rate,
                       .beta1 = 0.9,
                       .beta2 = 0.999,
                       .epsilon = 1e-8,
                       .weight_decay = 0,
                       .step = number,
                       .gradient_scale = 1};
  const InputGate before = state.gate;
  adamw_step_ref(step, gradient.first, state.gate.first, state.first_moment.first, state.second_moment.first);
  adamw_step_ref(step, gradient.second, state.gate.second, state.first_moment.second, state.second_moment.second);
  adamw_step_ref(step, gradient.key, state.gate.key, state.first_moment.key, state.second_moment.key);
  const bool rescale = updates == GateUpdates::rescaled;
  keep_free(memory[0], before.first, rescale, state.gate.first);
  keep_free(memory[1], before.second, rescale, state.gate.second);
  keep_free(memory[2], before.key, false, state.gate.key);
  gradient = zeros_like(gradient);
}

}  // namespace tern
