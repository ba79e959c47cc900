#include "update/step.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
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

UpdateNorm gradient_norm(const UpdatePass& pass) {
  std::vector<double> squares;
  double total = 0;
  for (const Tensor& gradient : pass.gradients) total += squares.emplace_back(squares_of(gradient));
  if (!std::isfinite(total)) refuse(pass.state.infos, squares, pass.step);

  UpdateNorm norm{.gradient_norm = std::sqrt(total)};
  if (pass.config.clip > 0) norm.coefficient = std::min(1.0, pass.config.clip / (norm.gradient_norm + 1e-6));
  return norm;
}

void update_unit(const UpdatePass& pass, const UpdateNorm& norm, int unit) {
  const OptimizerState& state = pass.state;
  const UpdateStep step = step_of(pass.config.rule);
  for (size_t i = 0; i < state.infos.size(); ++i) {
    if (state.infos[i].unit != unit) continue;
    UpdateShard shard{.config = pass.config,
                      .form = state.forms[i],
                      .decays = state.infos[i].decay,
                      .learning_rate = pass.learning_rate,
                      .step = pass.step,
                      .norm = norm,
                      .gradient = pass.gradients[i],
                      .master = state.master[i]};
    if (pass.weights[i].dtype() == DType::bf16) shard.rounded = pass.weights[i];
    for (const std::vector<Tensor>& slot : state.slots) shard.slots.push_back(slot[i]);
    step(shard);
  }
}

}  // namespace tern
