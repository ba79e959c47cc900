#include "train/update.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/vector.h"
#include "kernels/ref/optimizer_ref.h"

namespace tern {
namespace {

bool has_first(const OptimizerConfig& c) { return c.kind == UpdateRule::adamw || c.momentum != 0; }
bool has_second(const OptimizerConfig& c) { return c.kind == UpdateRule::adamw; }

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

struct Step {
  const OptimizerConfig& config;
  double learning_rate, coefficient;
  int64_t step;

  AdamwStep adamw(bool decay) const {
    return {.learning_rate = learning_rate,
            .beta1 = config.beta1,
            .beta2 = config.beta2,
            .epsilon = config.epsilon,
            .weight_decay = decay ? config.weight_decay : 0.0,
            .step = step,
            .gradient_scale = coefficient};
  }
  SgdStep sgd(bool decay) const {
    return {.learning_rate = learning_rate,
            .momentum = config.momentum,
            .weight_decay = decay ? config.weight_decay : 0.0,
            .gradient_scale = coefficient};
  }
};

template <class T>
std::span<T> span_or_empty(const Tensor& t) {
  return t.empty() ? std::span<T>() : t.span<T>();
}

/// One tensor's step; its gradient is zero afterwards.
void step_tensor(const Step& s, const ParameterInfo& info, const Tensor& gradient, const OptimizerState& state,
                 size_t i, const Tensor& weight) {
  const Tensor &master = state.master[i], &m = state.first[i], &v = state.second[i];
  if (master.dtype() == DType::f64) {
    const std::span<const double> g = gradient.span<double>();
    if (s.config.kind == UpdateRule::adamw)
      adamw_step_ref(s.adamw(info.decay), g, master.span<double>(), m.span<double>(), v.span<double>());
    else
      sgd_step_ref(s.sgd(info.decay), g, master.span<double>(), span_or_empty<double>(m));
    return gradient.fill_zero();
  }
  const std::span<bf16> rounded = weight.dtype() == DType::bf16 ? weight.span<bf16>() : std::span<bf16>();
  const std::span<float> g = gradient.span<float>();
  if (s.config.kind == UpdateRule::adamw)
    return adamw_step_and_clear(s.adamw(info.decay), g, master.span<float>(), m.span<float>(), v.span<float>(),
                                rounded);
  sgd_step(s.sgd(info.decay), g, master.span<float>(), span_or_empty<float>(m), rounded);
  gradient.fill_zero();
}

}  // namespace

UpdateRule update_rule_from_name(std::string_view name) {
  for (const UpdateRule kind : kUpdateRules)
    if (name == name_of(kind)) return kind;
  throw Error(ErrorKind::usage, "--optimizer: '{}' is none of adamw, sgd", name);
}

OptimizerState make_optimizer_state(const ModelSpec& spec, ModelWeights& weights, const OptimizerConfig& config,
                                    Arena& arena) {
  OptimizerState state;
  state.infos = parameters(spec);
  for (Tensor* weight : tensors(spec, weights)) {
    const bool rounded = weight->dtype() == DType::bf16;
    const DType type = rounded ? DType::f32 : weight->dtype();
    state.master.push_back(rounded ? arena.allocate(type, weight->shape(), MemoryClass::optimizer) : *weight);
    if (rounded) convert(std::span<const bf16>(weight->span<bf16>()), state.master.back().span<float>());
    state.first.push_back(has_first(config) ? arena.zeros(type, weight->shape(), MemoryClass::optimizer) : Tensor());
    state.second.push_back(has_second(config) ? arena.zeros(type, weight->shape(), MemoryClass::optimizer) : Tensor());
  }
  for_each_fixed(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    state.fixed_names.push_back(info.name);
    state.fixed.push_back(t);
  });
  return state;
}

int64_t optimizer_bytes(int64_t parameters, DType dtype, const OptimizerConfig& config) {
  const int64_t copies = (dtype == DType::bf16) + has_first(config) + has_second(config);
  return parameters * copies * (dtype == DType::f64 ? 8 : 4);
}

void round_masters(const ModelSpec& spec, const OptimizerState& state, ModelWeights& weights) {
  const std::vector<Tensor*> all = tensors(spec, weights);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i]->dtype() == DType::bf16)
      convert(std::span<const float>(state.master[i].span<float>()), all[i]->span<bf16>());
}

UpdateResult apply_update(const ModelSpec& spec, OptimizerState& state, const OptimizerConfig& config,
                          ModelWeights& weights, ModelWeights& gradients, double learning_rate, int64_t step) {
  const std::vector<Tensor*> w = tensors(spec, weights), g = tensors(spec, gradients);
  std::vector<double> squares;
  double total = 0;
  for (const Tensor* gradient : g) total += squares.emplace_back(squares_of(*gradient));
  if (!std::isfinite(total)) refuse(state.infos, squares, step);

  UpdateResult result{.gradient_norm = std::sqrt(total)};
  if (config.clip > 0) result.coefficient = std::min(1.0, config.clip / (result.gradient_norm + 1e-6));
  const Step s{config, learning_rate, result.coefficient, step};
  for (size_t i = 0; i < w.size(); ++i) step_tensor(s, state.infos[i], *g[i], state, i, *w[i]);
  return result;
}

void zero_gradients(const ModelSpec& spec, ModelWeights& gradients) {
  for (const Tensor* gradient : tensors(spec, gradients)) gradient->fill_zero();
}

}  // namespace tern
