// SNGM, stochastic normalized gradient descent with momentum: u = β u + g / (‖g‖ + ε), w -= lr·u, with one Euclidean norm over the
// gradients of the whole model, taken before the momentum; g has the weight decay in it. So ‖u‖ <= 1/(1-β).
// Source: Zhao, Xie & Li 2020, arXiv:2007.13985 (text not seen: as catalogues of optimizers give it; ε and the place of the decay are
// ours).
#include <cmath>

#include "kernels/cpu/optimizer.h"
#include "kernels/ref/optimizer_ref.h"
#include "update/rule.h"

namespace tern {
namespace {

UpdateSumValues measure(const UpdateShard& s) {
  const double scale = s.norm.coefficient, decay = s.decay();
  if (s.master.dtype() == DType::f64)
    return {decayed_squares_ref(scale, s.gradient.span<double>(), decay, s.master.span<double>())};
  return {decayed_squares(scale, s.gradient.span<float>(), decay, s.master.span<float>())};
}

// u = β u + (scale·g + scale·wd·w), which is SGD's step with both scaled.
void step(const UpdateShard& s) {
  const double norm = num_sums(s.config) > 0 ? std::sqrt(s.norm.sums[0]) : s.norm.gradient_norm;
  const double guarded = norm + s.config.option("epsilon");
  const double scale = guarded > 0 ? 1 / guarded : 0;  // no gradient at all: only the velocity moves the weights
  const SgdStep scalars{.learning_rate = s.learning_rate,
                        .momentum = s.config.option("momentum"),
                        .weight_decay = scale * s.decay(),
                        .gradient_scale = scale};
  sgd_step_of(s, scalars);
}

}  // namespace

const UpdateFunctions sngm_rule{.step = step, .measure = measure};

}  // namespace tern
