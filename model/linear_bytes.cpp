// What products take beside their operands, and which kernels make them; by closed forms, without a weight.

#include "base/error.h"
#include "kernels/cpu/coded_matmul.h"
#include "kernels/cpu/head_loss.h"
#include "kernels/cpu/matmul.h"
#include "kernels/onednn/fast_matmul.h"
#include "model/linear.h"

namespace tern {

bool multiplies_blocks(Multiply multiply, DType dtype) {
  return multiply == Multiply::exact && multiplies_coded(dtype);
}

ScratchBytes scratch_bytes(Multiply multiply, DType dtype) {
  if (dtype == DType::f64) return {};
  return [=](ProductKind product, int64_t m, int64_t n, int64_t k) -> int64_t {
    const bool fast = multiply == Multiply::fast;
    switch (product) {
      case ProductKind::forward:
        if (fast) return fast_scratch_bytes(LinearProduct::forward, dtype, m, n, k);
        [[fallthrough]];
      case ProductKind::expert_forward:
        return reads_plain_weights(dtype) ? 0 : packed_bytes(dtype, n, k);
      case ProductKind::input_gradient:
        return fast ? fast_scratch_bytes(LinearProduct::input_gradient, dtype, m, n, k) : 0;
      case ProductKind::weight_gradient:
        return fast ? fast_scratch_bytes(LinearProduct::weight_gradient, dtype, m, n, k) : 0;
      case ProductKind::decoded:
        return multiplies_blocks(multiply, dtype) ? 0 : n * k * size_of(dtype);
      case ProductKind::head_loss:
        return fast && dtype == DType::bf16 ? head_loss_scratch_bytes(m, n, k) : 0;
    }
    return 0;
  };
}

ThreadBytes thread_bytes(Multiply multiply, DType dtype, ProductKind product, int64_t m, int64_t n, int64_t k) {
  if (dtype == DType::f64) return {};
  const bool fast = multiply == Multiply::fast;
  switch (product) {
    case ProductKind::forward:
      return fast ? fast_thread_bytes(LinearProduct::forward, dtype, m, n, k) : forward_thread_bytes(dtype, m, n, k);
    case ProductKind::input_gradient:
      return fast ? fast_thread_bytes(LinearProduct::input_gradient, dtype, m, n, k) : nn_thread_bytes(dtype, m, n, k);
    case ProductKind::weight_gradient:
      return fast ? fast_thread_bytes(LinearProduct::weight_gradient, dtype, m, n, k) : tn_thread_bytes(dtype, m, n, k);
    case ProductKind::expert_forward:  // and its gradients, for which unit_cost has no workspace to ask about
      return most(forward_thread_bytes(dtype, m, n, k),
                  most(nn_thread_bytes(dtype, m, n, k), tn_thread_bytes(dtype, m, n, k)));
    case ProductKind::head_loss:
    case ProductKind::decoded:
      return {};  // its scratch is the arena's
  }
  return {};
}

int64_t library_bytes(Multiply multiply, DType dtype, ProductKind product, int64_t m, int64_t n, int64_t k) {
  if (dtype == DType::f64 || multiply != Multiply::fast) return 0;
  switch (product) {
    case ProductKind::forward:
      return fast_library_bytes(LinearProduct::forward, dtype, m, n, k);
    case ProductKind::input_gradient:
      return fast_library_bytes(LinearProduct::input_gradient, dtype, m, n, k);
    case ProductKind::weight_gradient:
      return fast_library_bytes(LinearProduct::weight_gradient, dtype, m, n, k);
    case ProductKind::expert_forward:
    case ProductKind::head_loss:
    case ProductKind::decoded:
      return 0;  // own kernels
  }
  return 0;
}

bool multiplies_rows_alone(Multiply multiply, DType dtype, ProductKind product) {
  const bool forward = product == ProductKind::forward;
  TERN_CHECK(forward || product == ProductKind::input_gradient, "multiplies_rows_alone: product {}",
             static_cast<int>(product));
  if (dtype == DType::f64 || multiply == Multiply::exact) return true;
  return !is_by_onednn(forward ? LinearProduct::forward : LinearProduct::input_gradient, dtype);
}

}  // namespace tern
