#include "kernels/ref/head_loss_ref.h"

#include <vector>

#include "kernels/ref/cross_entropy_ref.h"
#include "kernels/ref/matmul_ref.h"

namespace tern {

void head_loss_ref(int64_t vocab, int64_t width, std::span<const int32_t> targets, double scale,
                   std::span<const double> x, std::span<const double> w, std::span<double> losses, std::span<double> dx,
                   std::span<double> dw) {
  const auto rows = static_cast<int64_t>(targets.size());
  std::vector<double> z(static_cast<size_t>(rows * vocab));
  multiply_ref(x, w, {}, rows, vocab, width, false, z);
  cross_entropy_forward_backward_ref(vocab, targets, {}, scale, z, losses);
  multiply_nn_ref(z, w, rows, vocab, width, false, dx);
  multiply_tn_ref(z, x, rows, vocab, width, dw);
}

}  // namespace tern
