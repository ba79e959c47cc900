#include "adapt/penalties.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/lapack/product.h"
#include "kernels/lapack/symmetric_eigen.h"
#include "model/allocate_weights.h"
#include "model/linear.h"
#include "model/ops.h"
#include "model/visit_weights.h"
#include "program/generate.h"
#include "spec/recompute.h"

namespace tern {
namespace {

std::vector<double> widened(const Tensor& t) {
  std::vector<double> numbers(static_cast<size_t>(t.count()));
  ops::by_dtype(t.dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, bf16>) std::ranges::copy(t.span<T>(), numbers.begin());
  });
  return numbers;
}

void add(const std::vector<double>& more, const Tensor& gradient) {
  ops::by_dtype(gradient.dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, bf16>) {
      const std::span<T> to = gradient.span<T>();
      for (size_t i = 0; i < to.size(); ++i) to[i] += static_cast<T>(more[i]);
    }
  });
}

// The step's Program up to its norm.
Program passes_of(const ModelSpec& spec, const CostQuery& query) {
  Program program = training_program(spec, {&query, 1}, Recompute::none);
  const auto norm = std::ranges::find(program.instructions, Opcode::norm, &Instruction::op);
  program.instructions.erase(norm, program.instructions.end());
  return program;
}

}  // namespace

void add_ewc_gradient(const NamedMatrices& anchors, double weight, const StepGradients& step) {
  for (size_t p = 0; p < step.infos.size(); ++p) {
    const auto value = anchors.find(step.infos[p].name + ".value");
    if (value == anchors.end()) continue;
    const std::vector<double>& importance = anchors.at(step.infos[p].name + ".importance").numbers;
    std::vector<double> pull = widened(step.masters[p]);
    for (size_t i = 0; i < pull.size(); ++i) pull[i] = weight * importance[i] * (pull[i] - value->second.numbers[i]);
    add(pull, step.gradients[p]);
  }
}

void add_anchors(const TrainSettings& s, TaskModel& model, const Feed& feed, int64_t max_windows,
                 NamedMatrices& anchors) {
  const ModelSpec& spec = model.in.spec;
  Arena arena;
  ModelWeights gradients = allocate_gradients(spec, DType::f32, arena);
  const std::vector<ParameterInfo> infos = trained_parameters(spec);
  const std::vector<Tensor*> weights = trained_tensors(spec, model.weights), g = trained_tensors(spec, gradients);
  for (size_t p = 0; p < infos.size(); ++p) {
    anchors[infos[p].name + ".value"] = {infos[p].shape[1], widened(*weights[p])};
    NamedMatrix& importance = anchors[infos[p].name + ".importance"];
    importance.width = infos[p].shape[1];
    importance.numbers.resize(static_cast<size_t>(infos[p].shape.count()));
  }
  const int64_t count = std::min(feed.num_windows(), max_windows);
  for (int64_t w = 0; w < count; ++w) {
    const int64_t chosen = feed.num_windows() * w / count;
    const MicroBatch batch = feed.windows({&chosen, 1}, model.rope ? &*model.rope : nullptr);
    const auto targets = static_cast<double>(batch.num_targets());
    if (targets == 0) continue;
    const CostQuery query{.tokens = s.seq,
                          .attended_pairs = attended_pairs_of(batch, 0),
                          .dtype = DType::f32,
                          .scratch = scratch_bytes(Multiply::exact, DType::f32)};
    execute(passes_of(spec, query), {.spec = spec,
                                     .weights = model.weights,
                                     .gradients = &gradients,
                                     .micro_batches = {&batch, 1},
                                     .loss_scale = 1 / targets,
                                     .compute = {model.arena, Multiply::exact}});
    for (size_t p = 0; p < infos.size(); ++p) {
      std::vector<double>& importance = anchors[infos[p].name + ".importance"].numbers;
      const std::span<float> numbers = g[p]->span<float>();
      for (size_t i = 0; i < importance.size(); ++i)
        importance[i] +=
            targets * static_cast<double>(numbers[i]) * static_cast<double>(numbers[i]) / static_cast<double>(count);
      g[p]->fill_zero();
    }
  }
}

void add_olora_gradient(const NamedMatrices& past, double weight, const StepGradients& step) {
  for (size_t p = 0; p < step.infos.size(); ++p) {
    const auto at = past.find(step.infos[p].name);
    if (at == past.end()) continue;
    const NamedMatrix& old = at->second;
    const int64_t rank = step.infos[p].shape[0], n = old.num_rows();
    std::vector<double> signs = product_transposed(widened(step.masters[p]), old.numbers, rank, old.width, n);
    for (double& x : signs) x = x > 0 ? weight : x < 0 ? -weight : 0;
    add(product(signs, old.numbers, rank, n, old.width), step.gradients[p]);
  }
}

void add_past_rows(TaskModel& model, NamedMatrices& past) {
  for_each_adapter(model.in.spec, model.weights, [&](const ParameterInfo& info, const Tensor& t) {
    if (!info.name.ends_with(".a")) return;
    NamedMatrix& rows = past[info.name];
    rows.width = info.shape[1];
    const std::vector<double> more = widened(t);
    rows.numbers.insert(rows.numbers.end(), more.begin(), more.end());
  });
}

}  // namespace tern
