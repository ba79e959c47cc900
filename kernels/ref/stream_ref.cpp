#include "kernels/ref/stream_ref.h"

namespace tern {

double stream_sum_ref(std::span<const double> x) {
  double total = 0;
  for (const double value : x) total += value;
  return total;
}

}  // namespace tern
