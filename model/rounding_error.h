#pragma once
// How far a file's numbers lie from those they were made of.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/parameter_reader.h"

namespace tern {

struct RoundingError {
  std::string parameter;
  int64_t elements = 0, different = 0;    // by value
  double squares = 0, error_squares = 0;  // Σ x², Σ (x − y)²
  /// √(Σ (x − y)² / Σ x²); 0 of an empty or zero tensor that is the same.
  double relative() const;
};
/// Parameter by parameter, both read as f32, in the order of parameters(spec). `done`: parameters so far.
/// Memory  one parameter of each. Errors: those of ParameterReader; NotFinite: a number that is none, on either side.
std::vector<RoundingError> rounding_errors(const ModelSpec&, ParameterReader& from, ParameterReader& to, Arena&,
                                           const std::function<void(int64_t done)>& progress);
/// All of them as one.
RoundingError total_of(std::span<const RoundingError>);

}  // namespace tern
