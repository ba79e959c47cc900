#include "update/step.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/threads.h"
#include "kernels/cpu/vector.h"

namespace tern {
namespace {

double squares_of(const Tensor& t) {
  if (t.dtype() == DType::f32) return sum_of_squares(std::span<const float>(t.span<float>()));
  double sum = 0;
  for (const double x : t.span<double>()) sum += x * x;
  return sum;
}

// Σ x² of finite numbers may overflow f32 products but not doubles: not finite means a NaN or an infinity is in there.
[[noreturn]] void refuse(const std::vector<ParameterInfo>& infos, const std::vector<double>& squares, int64_t step) {
  size_t first = 0, count = 0;
  for (size_t i = squares.size(); i-- > 0;)
    if (!std::isfinite(squares[i])) first = i, ++count;
  throw Error(
      ErrorKind::diverged,
      "step {}: the gradient of '{}' is not finite ({} of {} tensors are not); the update was refused and the "
      "weights are those of step {}. A lower --learning-rate, a longer --warmup-steps or --clip usually help; that is "
      "another run, so give it another --output or say --resume never",
      step, infos[first].name, count, infos.size(), step - 1);
}

}  // namespace

UpdatePass make_update_pass(const ModelSpec& spec, OptimizerState& state, const UpdateConfig& config,
                            ModelWeights& weights, ModelWeights& gradients) {
  UpdatePass pass{.state = state, .config = config, .weights = {}, .gradients = {}};
  for (const Tensor* t : trained_tensors(spec, weights)) pass.weights.push_back(*t);
  for (const Tensor* t : trained_tensors(spec, gradients)) pass.gradients.push_back(*t);
  TERN_CHECK(pass.weights.size() == state.infos.size(), "update: {} weights, a state of {}", pass.weights.size(),
             state.infos.size());
  return pass;
}

UpdateShard shard_of(const UpdatePass& pass, const UpdateNorm& norm, size_t parameter) {
  const OptimizerState& state = pass.state;
  const double rate = pass.highest_rate, all = pass.squared_rates;
  UpdateShard shard{.config = pass.config,
                    .form = state.forms[parameter],
                    .decays = state.infos[parameter].decay,
                    .learning_rate = pass.learning_rate,
                    .step = pass.step,
                    .average_weight = all > 0 ? rate * rate / all : 0,
                    .norm = norm,
                    .gradient = pass.gradients[parameter],
                    .master = state.master[parameter]};
  const Tensor& weight = pass.weights[parameter];
  if (has_own_masters(pass.config, weight.dtype())) shard.compute = weight;
  for (const std::vector<Tensor>& slot : state.slots) shard.slots.push_back(slot[parameter]);
  return shard;
}

void begin_step(UpdatePass& pass, int64_t number, const std::function<double(int64_t)>& rate_of) {
  if (number != pass.step + 1) pass.step = 0, pass.highest_rate = pass.squared_rates = 0;
  while (pass.step < number) {
    pass.learning_rate = rate_of(++pass.step);
    pass.highest_rate = std::max(pass.highest_rate, pass.learning_rate);
    pass.squared_rates += pass.highest_rate * pass.highest_rate;
  }
}

UpdateNorm gradient_norm(const UpdatePass& pass) {
  std::vector<double> squares;
  double total = 0;
  for (const Tensor& gradient : pass.gradients) total += squares.emplace_back(squares_of(gradient));
  if (!std::isfinite(total)) refuse(pass.state.infos, squares, pass.step);

  UpdateNorm norm{.gradient_norm = std::sqrt(total)};
  if (pass.config.clip > 0) norm.coefficient = std::min(1.0, pass.config.clip / (norm.gradient_norm + 1e-6));
  if (num_sums(pass.config) == 0 || row_of(pass.config.rule).sums.over != UpdateSums::Over::model) return norm;
  UpdateSumValues sums{};
  for (size_t i = 0; i < pass.state.infos.size(); ++i) {
    const UpdateSumValues own = sums_of(shard_of(pass, norm, i));
    for (size_t k = 0; k < sums.size(); ++k) sums[k] += own[k];
  }
  norm.sums = sums;
  return norm;
}

void update_unit(const UpdatePass& pass, const UpdateNorm& norm, int unit, Arena& arena) {
  const OptimizerState& state = pass.state;
  const UpdateRuleRow& row = row_of(pass.config.rule);
  const bool sums = num_sums(pass.config) > 0 && row.sums.over == UpdateSums::Over::parameter;
  for (size_t i = 0; i < state.infos.size(); ++i) {
    if (state.infos[i].unit != unit) continue;
    UpdateShard shard = shard_of(pass, norm, i);
    if (const int64_t elements = row.temporary ? row.temporary(shard.form) : 0; elements > 0)
      shard.temporary = arena.allocate(shard.master.dtype(), {elements}, MemoryClass::workspace);
    if (sums) shard.sums = sums_of(shard);
    functions_of(pass.config.rule).step(shard);
  }
}

int64_t update_thread_bytes(const ModelSpec& spec, const UpdateConfig& config, DType weights) {
  ThreadBytes all;
  const auto asked = functions_of(config.rule).thread_bytes;
  if (asked && weights != DType::f64)
    for (const ParameterInfo& info : trained_parameters(spec)) all = most(all, asked(form_of(spec, info)));
  return all.total(num_compute_threads());
}

void put_weights_at(const UpdatePass& pass, WeightPoint point) {
  if (!row_of(pass.config.rule).computes_elsewhere) return;
  for (size_t i = 0; i < pass.state.infos.size(); ++i) {
    const UpdateShard shard = shard_of(pass, {}, i);
    if (point == WeightPoint::computing)
      functions_of(pass.config.rule).place(shard);
    else
      round_master(shard.master, shard.compute);
  }
}

}  // namespace tern
