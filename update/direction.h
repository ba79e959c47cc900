#pragma once
// The random direction of a step without backward passes: a standard normal number for each trained element, made again wherever it is
// needed and kept nowhere. It depends on seed, step, the parameter's name and the element's place alone, not on the number of threads, the
// order of units, or where weights lie.
// Source: MeZO, Malladi et al. 2023, arXiv:2305.17333 (the seed in the place of the direction; recalled).

#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

namespace tern {

struct Direction {
  uint64_t seed = 0;
  int64_t step = 0;  // from 1
};

/// One element: f32 by Box-Muller, four elements to a block of Philox. The plain twin of the two below.
float direction_at(const Direction&, std::string_view parameter, int64_t element);

/// to = from + scale·z in doubles, rounded to `to`'s type (bf16 by way of f32). Both f32, f64 or bf16, of equal length.
void move_along(const Direction&, std::string_view parameter, double scale, const Tensor& from, const Tensor& to);

/// to = scale·z in doubles, rounded as above.
void put_direction(const Direction&, std::string_view parameter, double scale, const Tensor& to);

}  // namespace tern
