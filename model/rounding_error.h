#pragma once
// How far a file's numbers lie from the numbers that they were rounded from.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/parameter_reader.h"

namespace tern {

struct RoundingError {
  std::string parameter;
  int64_t elements = 0, different = 0;    // different: those whose values differ
  double squares = 0, error_squares = 0;  // Σ x², Σ (x − y)²
  /// √(Σ (x − y)² / Σ x²); 0 where nothing differs, infinite where only x is zero throughout.
  double relative() const;
};
/// Compares the two sides parameter by parameter, in the order of parameters(spec),
/// both read as f32. Calls `progress` with the number of parameters done.
/// Memory  one parameter of each side. Errors: those of ParameterReader; NotFinite: NaN or infinity on either side.
std::vector<RoundingError> rounding_errors(const ModelSpec&, ParameterReader& from, ParameterReader& to, Arena&,
                                           const std::function<void(int64_t done)>& progress);
/// The errors of several parameters, summed up to one.
RoundingError total_of(std::span<const RoundingError>);

}  // namespace tern
