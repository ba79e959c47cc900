#include "adapt/gate_trainer.h"

#include <algorithm>

#include "adapt/window_prompt.h"
#include "base/error.h"
#include "model/adapter_files.h"
#include "model/allocate_weights.h"
#include "model/ops.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

// Bytes of f64 that lie in a gate and, as state, in AdamW's moments of it.
int64_t numbers_of(const InputGate& gate) {
  int64_t count = 0;
  for_each_list(gate, [&](const char*, const std::vector<double>& list) { count += std::ssize(list); });
  return count;
}

template <class Number>
double tensor_dot(const Tensor& a, const Tensor& b) {
  const std::span<Number> x = a.span<Number>();
  double sum = 0;
  ops::by_dtype(b.dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, bf16>) {
      const std::span<T> y = b.span<T>();
      for (size_t i = 0; i < x.size(); ++i) {
        if constexpr (std::is_same_v<Number, bf16>)
          sum += static_cast<double>(to_float(x[i])) * static_cast<double>(y[i]);
        else
          sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
      }
    }
  });
  return sum;
}

// Numbers of f64 where they lie, counted.
Tensor counted(std::vector<double>& numbers, MemoryClass of, Arena& arena) {
  return arena.adopt(DType::f64, {std::ssize(numbers)}, numbers.data(), nullptr, of);
}

}  // namespace

GateTrainer::GateTrainer(GateTask task) : task_(std::move(task)), state_(state_of(task_.begin)) {
  gradient_ = state_.first_moment;  // zeros
}

StepCompanion::Bytes GateTrainer::bytes(const ModelSpec& spec, DType dtype) const {
  Bytes bytes{.read = 0, .state = 3 * 8 * numbers_of(task_.begin)};
  int64_t branch = 0;
  for (const ParameterInfo& info : trained_parameters(spec)) branch += info.shape.count() * size_of(dtype);
  for (const InputGate& gate : task_.earlier.gates) bytes.read += branch + 8 * numbers_of(gate);
  for (const InputMemory& memory : task_.memory) bytes.read += 8 * std::ssize(memory.rows);
  return bytes;
}

std::vector<NamedTensor> GateTrainer::allocate(const ModelSpec& spec, DType dtype, Arena& arena) {
  spec_ = spec;
  earlier_ = empty_weights(with_adapters(spec, 0));
  add_branches(spec, task_.earlier.branches, dtype, earlier_, arena);
  for (InputGate& gate : task_.earlier.gates)
    for_each_list(gate, [&](const char*, std::vector<double>& list) {
      counted_.push_back(counted(list, MemoryClass::weights, arena));
    });
  for (InputMemory& memory : task_.memory) counted_.push_back(counted(memory.rows, MemoryClass::weights, arena));
  for (const ParameterInfo& info : trained_parameters(spec)) is_b_.push_back(info.name.ends_with(".b"));
  std::vector<NamedTensor> state;
  const auto add = [&](const std::string& slot, InputGate& lists) {
    for_each_list(lists, [&](const char* name, std::vector<double>& list) {
      state.push_back({slot + ".gate." + name, counted(list, MemoryClass::optimizer, arena)});
    });
  };
  add("model", state_.gate), add("first", state_.first_moment), add("second", state_.second_moment);
  return state;
}

void GateTrainer::join(const ModelWeights& trained) {
  weights_ = trained;
  std::vector<const Linear*> earlier;
  for_each_linear(spec_, earlier_, [&](const ParameterInfo&, Linear& linear) { earlier.push_back(&linear); });
  auto from = earlier.begin();
  for_each_linear(spec_, weights_, [&](const ParameterInfo&, Linear& linear) {
    linear.branches.insert(linear.branches.end(), (*from)->branches.begin(), (*from)->branches.end()), ++from;
  });
  branches_ = GatedBranches(spec_, weights_, num_earlier());
}

void GateTrainer::choose_targets(std::vector<MicroBatch>& batches) const {
  for (MicroBatch& window : batches) hide_prompt(window, task_.earlier.prompt_tokens);
}

void GateTrainer::before(const MicroBatch& window) {
  // Of a text's window whose first losses are hidden the prompt is the same again.
  const auto prompt = static_cast<size_t>(prompt_rows(window, task_.earlier.prompt_tokens));
  const std::span<const int32_t> tokens = std::span(window.tokens).first(prompt);
  const std::vector<double> p = mean_embedding(spec_, weights_, tokens);
  std::vector<double> gates;
  for (const InputGate& gate : task_.earlier.gates) gates.push_back(run_gate(gate, p).gate);
  pass_ = run_gate(state_.gate, p);
  gates.push_back(pass_.gate);
  if (task_.forced) gates.assign(gates.size(), *task_.forced);
  gate_ = gates.back();
  branches_.set(gates);
}

void GateTrainer::after(const std::vector<Tensor>& trained, const std::vector<Tensor>& gradients) {
  double agreement = 0;
  for (size_t i = 0; i < is_b_.size(); ++i)
    if (is_b_[i])
      ops::by_dtype(trained[i].dtype(), [&]<class T>() { agreement += tensor_dot<T>(trained[i], gradients[i]); });
  if (gate_ != 0 && !task_.forced) add_gate_gradient(state_.gate, pass_, (agreement - agreement_) / gate_, gradient_);
  agreement_ = agreement;
}

void GateTrainer::update(int64_t number, double learning_rate) {
  agreement_ = 0;
  if (!task_.forced) step_gate(state_, gradient_, task_.memory, task_.updates, number, learning_rate);
}

void add_branches(const ModelSpec& adapted, const std::vector<std::string>& branches, DType dtype,
                  ModelWeights& weights, Arena& arena) {
  for (size_t i = 0; i < branches.size(); ++i)
    load_adapter_beside(adapted, "", branches[i], dtype, static_cast<int>(i), weights, arena);
}

}  // namespace tern
