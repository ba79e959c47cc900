#include "infer/gated_executor.h"

#include <memory>
#include <utility>

#include "base/error.h"

namespace tern {
namespace {

// For the time of a forward each sequence is an adapter by itself.
class AsAdapters {
 public:
  explicit AsAdapters(const Batch& batch) : batch_(batch) {
    for (size_t i = 0; i < batch.size(); ++i)
      before_.push_back(std::exchange(batch[i].sequence->adapter, static_cast<int>(i)));
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

// The branches of every sequence, adapter i those of sequence i; tensors are handles on those of `weights`.
ModelWeights branches_by_sequence(const ModelSpec& spec, const ModelWeights& weights,
                                  const std::vector<std::vector<double>>& gates) {
  ModelWeights own = weights;
  for_each_linear(spec, own, [&](const ParameterInfo&, Linear& linear) {
    const std::vector<Branch> each = std::move(linear.branches);
    linear.branches.clear();
    for (size_t i = 0; i < gates.size(); ++i)
      for (const Branch& b : each) {
        linear.branches.push_back(b);
        linear.branches.back().adapter = static_cast<int>(i);
        linear.branches.back().scale *= gates[i][static_cast<size_t>(b.adapter)];
      }
  });
  return own;
}

}  // namespace

BatchExecutor gated_executor(const ModelSpec& spec, const ModelWeights& weights, GatedAdapter gated,
                             const RopeTable* rope, Arena& arena) {
  return [&spec, &weights, gated = std::move(gated), rope, &arena](const Batch& batch, const KvPool& pool) {
    std::vector<std::vector<double>> gates;
    for (const Work& work : batch) {
      const Sequence& s = *work.sequence;
      gates.push_back(gates_of(gated, spec, weights, std::span(s.tokens).first(static_cast<size_t>(s.prompt_tokens))));
    }
    const ModelWeights own = branches_by_sequence(spec, weights, gates);
    const AsAdapters as(batch);
    return model_executor(spec, own, rope, arena, static_cast<int>(batch.size()))(batch, pool);
  };
}

}  // namespace tern
