#pragma once
// The random direction of a step without backward passes: one standard normal number for each trained element. The numbers are generated
// anew wherever they are needed, and stored nowhere. A number depends only on the seed, the step, the parameter's name and the element's
// index; not on the number of threads, the order of units, or where weights lie.
// Source: MeZO, Malladi et al. 2023, arXiv:2305.17333 (it keeps the seed instead of the direction; recalled).

#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

namespace tern {

struct Direction {
  uint64_t seed = 0;
  int64_t step = 0;  // from 1
};

/// One element: f32, by Box-Muller; each block of Philox gives four elements. The reference for the two functions below.
float direction_at(const Direction&, std::string_view parameter, int64_t element);

/// to = from + scale·z in doubles, rounded to the tensors' type (bf16 by way of f32). Both are f32, f64 or bf16, and equally long.
void move_along(const Direction&, std::string_view parameter, double scale, const Tensor& from, const Tensor& to);

/// to = scale·z in doubles, rounded as above.
void put_direction(const Direction&, std::string_view parameter, double scale, const Tensor& to);

}  // namespace tern
