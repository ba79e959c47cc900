#include "train/preference.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "model/linear.h"
#include "model/visit_weights.h"
#include "program/generate.h"

namespace tern {
namespace {

struct Model {
  const ModelSpec& spec;
  const ModelWeights& weights;
};

// Σ -log p over the answer's tokens.
double loss_of(const Model& model, const MicroBatch& answer, const Compute& compute, DType dtype, Preference& of) {
  const CostQuery query{.tokens = static_cast<int64_t>(answer.tokens.size()),
                        .attended_pairs = attended_pairs_of(answer, 0),
                        .dtype = dtype,
                        .scratch = scratch_bytes(compute.multiply, dtype)};
  const ExecuteResult run =
      execute(forward_program(model.spec, {&query, 1}),
              {.spec = model.spec, .weights = model.weights, .micro_batches = {&answer, 1}, .compute = compute});
  of.peak_bytes = std::max(of.peak_bytes, run.bytes.peak_bytes);
  of.mismatches.insert(of.mismatches.end(), run.mismatches.begin(), run.mismatches.end());
  return run.loss_sum;
}

// The same numbers without branches.
ModelWeights without_branches(const ModelSpec& spec, const ModelWeights& weights) {
  ModelWeights reference = weights;  // tensors are handles
  size_t off = 0;
  for_each_linear(spec, reference, [&](const ParameterInfo&, Linear& linear) {
    off += linear.branches.size();
    linear.branches.clear();
  });
  TERN_CHECK(off > 0, "preference: a model without adapters is its own reference");
  return reference;
}

// log(1 + eˣ) without overflow.
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace

Preference weigh_pairs(const ModelSpec& spec, const ModelWeights& weights, double beta, std::span<MicroBatch> answers,
                       const Compute& compute, DType dtype) {
  TERN_CHECK(!answers.empty() && answers.size() % 2 == 0, "preference: {} answers are no pairs", answers.size());
  const ModelSpec plain = with_adapters(spec, 0);
  const ModelWeights off = without_branches(spec, weights);
  const auto pairs = static_cast<double>(answers.size() / 2);
  Preference result;
  for (size_t i = 0; i < answers.size(); i += 2) {
    std::array<double, 2> gain{};  // of log-probability, by the adapter
    for (size_t k = 0; k < 2; ++k)
      gain[k] = loss_of({plain, off}, answers[i + k], compute, dtype, result) -
                loss_of({spec, weights}, answers[i + k], compute, dtype, result);
    const double margin = beta * (gain[0] - gain[1]);
    result.loss += softplus(-margin) / pairs;
    result.accuracy += (margin > 0 ? 1 : 0) / pairs;
    result.margin += margin / pairs;
    const double slope = beta / (1 + std::exp(margin)) / pairs;
    answers[i].loss_scale = slope, answers[i + 1].loss_scale = -slope;
  }
  return result;
}

Evaluation evaluate_preference(const ModelSpec& spec, const ModelWeights& weights, double beta, const Feed& feed,
                               int64_t max_windows, DType dtype, const RopeTable* rope, Arena& arena,
                               const std::function<bool()>& stopped) {
  Evaluation result;
  const ModelSpec evaluated = without_dropout(spec);
  const int64_t there = feed.num_windows() / 2, count = std::max<int64_t>(1, std::min(there, max_windows / 2));
  double accuracy = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (stopped && stopped()) {
      result.whole = false;
      return result;
    }
    const int64_t pair = static_cast<int64_t>(static_cast<__int128>(there) * i / count);
    std::array<MicroBatch, 2> answers;
    for (int64_t k = 0; k < 2; ++k) {
      const int64_t window = 2 * pair + k;
      answers[static_cast<size_t>(k)] = feed.windows({&window, 1}, rope);
      result.num_targets += answers[static_cast<size_t>(k)].num_targets();
    }
    const Preference one = weigh_pairs(evaluated, weights, beta, answers, {arena, Multiply::exact}, dtype);
    result.loss += one.loss / static_cast<double>(count), accuracy += one.accuracy / static_cast<double>(count);
    result.peak_bytes = std::max(result.peak_bytes, one.peak_bytes);
    result.mismatches.insert(result.mismatches.end(), one.mismatches.begin(), one.mismatches.end());
  }
  result.accuracy = accuracy;
  return result;
}

}  // namespace tern
