#include "infer/gated_executor.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

// For the time of a forward each sequence has another adapter number.
class AsAdapters {
 public:
  AsAdapters(const Batch& batch, const std::vector<int>& numbers) : batch_(batch) {
    for (size_t i = 0; i < batch.size(); ++i) before_.push_back(std::exchange(batch[i].sequence->adapter, numbers[i]));
  }
  ~AsAdapters() {
    for (size_t i = 0; i < batch_.size(); ++i) batch_[i].sequence->adapter = before_[i];
  }
  AsAdapters(const AsAdapters&) = delete;
  AsAdapters& operator=(const AsAdapters&) = delete;

 private:
  const Batch& batch_;
  std::vector<int> before_;
};

// How much each adapter of the weights counts for a sequence; one that is not there does not act.
using Strengths = std::map<int, double>;

Strengths strengths_of(const SideAdapter& side, const ModelSpec& spec, const ModelWeights& weights, const Sequence& s) {
  if (!side.gates) return {{side.first, 1.0}};
  const std::vector<double> gates =
      gates_of(*side.gates, spec, weights, std::span(s.tokens).first(static_cast<size_t>(s.prompt_tokens)));
  Strengths strengths;
  for (size_t j = 0; j < gates.size(); ++j) strengths.emplace(side.first + static_cast<int>(j), gates[j]);
  return strengths;
}

// The branches of every sequence, adapter i those of sequence i; tensors are handles on those of `weights`.
ModelWeights branches_by_sequence(const ModelSpec& spec, const ModelWeights& weights,
                                  const std::vector<Strengths>& strengths) {
  ModelWeights own = weights;
  for_each_linear(spec, own, [&](const ParameterInfo&, Linear& linear) {
    const std::vector<Branch> each = std::move(linear.branches);
    linear.branches.clear();
    for (size_t i = 0; i < strengths.size(); ++i)
      for (const Branch& b : each) {
        const auto strength = strengths[i].find(b.adapter);
        if (strength == strengths[i].end()) continue;
        linear.branches.push_back(b);
        linear.branches.back().adapter = static_cast<int>(i);
        linear.branches.back().scale *= strength->second;
      }
  });
  return own;
}

// nullptr: the model as it is.
using SideOf = std::function<const SideAdapter*(const Sequence&)>;

// `alike`: runs batches in which no sequence has gates.
Tensor run_sides(const ModelSpec& spec, const ModelWeights& weights, const SideOf& side_of, const BatchExecutor& alike,
                 const RopeTable* rope, Arena& arena, const Batch& batch, const KvPool& pool) {
  std::vector<const SideAdapter*> sides;
  for (const Work& work : batch) sides.push_back(side_of(*work.sequence));
  std::vector<int> numbers;
  if (std::ranges::none_of(sides, [](const SideAdapter* side) { return side && side->gates; })) {
    for (const SideAdapter* side : sides) numbers.push_back(side ? side->first : kNoAdapter);
    const AsAdapters as(batch, numbers);
    return alike(batch, pool);
  }
  std::vector<Strengths> strengths;
  for (size_t i = 0; i < batch.size(); ++i) {
    strengths.push_back(sides[i] ? strengths_of(*sides[i], spec, weights, *batch[i].sequence) : Strengths{});
    numbers.push_back(sides[i] ? static_cast<int>(i) : kNoAdapter);
  }
  const ModelWeights own = branches_by_sequence(spec, weights, strengths);
  const AsAdapters as(batch, numbers);
  return model_executor(spec, own, rope, arena, static_cast<int>(batch.size()))(batch, pool);
}

}  // namespace

BatchExecutor gated_executor(const ModelSpec& spec, const ModelWeights& weights, GatedAdapter gated,
                             const RopeTable* rope, Arena& arena) {
  const auto all = std::make_shared<const SideAdapter>(SideAdapter{.first = 0, .gates = std::move(gated)});
  const BatchExecutor alike = model_executor(spec, weights, rope, arena);
  return [&spec, &weights, all, alike, rope, &arena](const Batch& batch, const KvPool& pool) {
    const SideOf side_of = [&](const Sequence&) { return all.get(); };
    return run_sides(spec, weights, side_of, alike, rope, arena, batch, pool);
  };
}

BatchExecutor side_executor(const ModelSpec& spec, const ModelWeights& weights, std::vector<SideAdapter> side,
                            const RopeTable* rope, Arena& arena) {
  int adapters = 0;
  for (const SideAdapter& one : side)
    adapters = std::max(adapters, one.first + (one.gates ? static_cast<int>(one.gates->branches.size()) : 1));
  const auto all = std::make_shared<const std::vector<SideAdapter>>(std::move(side));
  const BatchExecutor alike = model_executor(spec, weights, rope, arena, adapters);
  return [&spec, &weights, all, alike, rope, &arena](const Batch& batch, const KvPool& pool) {
    const SideOf side_of = [&](const Sequence& s) -> const SideAdapter* {
      TERN_CHECK(s.adapter < static_cast<int>(all->size()), "side_executor: adapter {} of {}", s.adapter, all->size());
      return s.adapter == kNoAdapter ? nullptr : &(*all)[static_cast<size_t>(s.adapter)];
    };
    return run_sides(spec, weights, side_of, alike, rope, arena, batch, pool);
  };
}

}  // namespace tern
