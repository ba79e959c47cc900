#pragma once
// NORM: the norm of all gradients of a step, and the rule's sums over the model (UpdateSums).

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/comm.h"
#include "update/pass.h"
#include "update/rule.h"

namespace tern {

/// Thrown for a gradient that is not finite. what() also says what usually helps.
class NotFiniteGradient : public Error {
 public:
  /// `fact`: the step, the tensor, and what was refused.
  NotFiniteGradient(std::string fact, std::string_view advice)
      : Error(ErrorKind::diverged, "{}. {}", fact, advice), fact_(std::move(fact)) {}
  const std::string& fact() const { return fact_; }

 private:
  std::string fact_;
};

/// NORM: what every UPDATE of the step needs of all gradients together. It changes nothing.
/// Order   sqrt(Σ over parameters of gradient_squares), in the order of trained_parameters(spec), in doubles and fixed
///         blocks. The rule's sums over the model (UpdateSums) have the same order, and are taken of clipped gradients.
/// Clip    PyTorch's clip_grad_norm_: coefficient min(1, clip / (norm + 1e-6)).
/// Ranks   All ranks get the sums of all blocks of shared-out parameters, so the norm has the bits of a run on one rank. In tensor
///         groups each rank makes one sum, in which elements that h ranks hold alike count 1/h; these sums are added in rank order.
/// Errors  NotFiniteGradient: names step and tensor (if this rank has a part of it). TERN_CHECK: parameters are shared out, and `world` is null.
UpdateNorm gradient_norm(const UpdatePass&, Comm* world = nullptr);

/// Σ x² of one parameter's gradient, with the bits that gradient_norm adds. Only for a parameter that is whole on this rank.
double gradient_squares(const UpdatePass&, size_t parameter);
/// For steps whose UPDATEs come before NORM: gradient_norm from the gradient_squares of each parameter. Errors  NotFiniteGradient.
UpdateNorm norm_of_squares(const UpdatePass&, const std::vector<double>& squares);
/// Checks one parameter's gradient_squares. Errors  diverged: it is not finite; the message says that other layers were updated already.
void require_finite_square(const UpdatePass&, size_t parameter, double square);

/// Bytes that each of `ranks` ranks contributes to NORM's exchange (block_value_bytes).
std::vector<int64_t> norm_value_bytes(const UpdatePass&, int ranks);

}  // namespace tern
