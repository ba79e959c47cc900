#include "model/rounding_error.h"

#include <cmath>

#include "model/not_finite.h"
#include "model/visit_weights.h"

namespace tern {

double RoundingError::relative() const { return error_squares == 0 ? 0 : std::sqrt(error_squares / squares); }

std::vector<RoundingError> rounding_errors(const ModelSpec& spec, ParameterReader& from, ParameterReader& to,
                                           Arena& arena, const std::function<void(int64_t)>& progress) {
  std::vector<RoundingError> errors;
  for (const ParameterInfo& info : parameters(spec)) {
    const Tensor x = from.read(info, DType::f32, arena), y = to.read(info, DType::f32, arena);
    RoundingError& e = errors.emplace_back(RoundingError{.parameter = info.name, .elements = x.count()});
    const std::span<const float> xs = x.span<float>(), ys = y.span<float>();
    for (size_t i = 0; i < xs.size(); ++i) {
      const double a = static_cast<double>(xs[i]), d = a - static_cast<double>(ys[i]);
      e.squares += a * a;
      e.error_squares += d * d;
      e.different += d != 0;
    }
    if (!std::isfinite(e.error_squares))
      throw NotFinite("'{}' holds a number that is not finite, or that its type in the file cannot hold", info.name);
    progress(static_cast<int64_t>(errors.size()));
  }
  return errors;
}

RoundingError total_of(std::span<const RoundingError> errors) {
  RoundingError total{.parameter = "all"};
  for (const RoundingError& e : errors) {
    total.elements += e.elements;
    total.different += e.different;
    total.squares += e.squares;
    total.error_squares += e.error_squares;
  }
  return total;
}

}  // namespace tern
