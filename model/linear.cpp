#include "model/linear.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/head_loss.h"
#include "kernels/cpu/matmul.h"
#include "kernels/onednn/fast_matmul.h"
#include "kernels/ref/matmul_ref.h"
#include "model/ops.h"

namespace tern {

namespace {

std::span<std::byte> raw(const Tensor& bytes) {
  return {static_cast<std::byte*>(bytes.data()), static_cast<size_t>(bytes.bytes())};
}

bool is_fast(const Linear& linear, const Compute& c) { return c.multiply == Multiply::fast && !linear.weight.empty(); }

/// The exact product with weights as they lie: one piece, or several from a file.
template <class T, class Out>
void forward_plain(const Linear& linear, const Tensor& x, std::span<const T> bias, const Tensor& y) {
  std::vector<WeightRows<T>> rows = ops::weight_rows<T>(linear.pieces);
  if (rows.empty()) rows.push_back({linear.weight.span<T>().data(), linear.out});
  multiply_plain<T, Out>(x.span<T>(), rows, bias, x.rows(), linear.out, linear.in, false, y.span<Out>());
}

template <class T, class Out>
void forward(const Linear& linear, const Tensor& x, const Tensor& y, const Tensor& scratch, const Compute& c) {
  const auto bias = ops::span_or_none<T>(linear.bias);
  if (is_fast(linear, c))
    return multiply_fast<T, Out>(x.span<T>(), linear.weight.span<T>(), bias, x.rows(), linear.out, linear.in,
                                 y.span<Out>(), raw(scratch));
  if (linear.packed.empty() && reads_plain_weights(x.dtype())) return forward_plain<T, Out>(linear, x, bias, y);
  const Tensor& packed = linear.packed.empty() ? scratch : linear.packed;
  multiply_exact<T, Out>(x.span<T>(), raw(packed), bias, x.rows(), linear.out, linear.in, false, y.span<Out>());
}

void check_shapes(const Linear& linear, const Tensor& rows_in, const Tensor& rows_out) {
  TERN_CHECK(rows_in.count() == rows_in.rows() * linear.in && rows_out.count() == rows_in.rows() * linear.out,
             "linear ({}, {}): in {}, out {}", linear.out, linear.in, to_string(rows_in.shape()),
             to_string(rows_out.shape()));
}

}  // namespace

ScratchBytes scratch_bytes(Multiply multiply, DType dtype) {
  if (dtype == DType::f64) return {};
  return [=](ProductKind product, int64_t m, int64_t n, int64_t k) -> int64_t {
    const bool fast = multiply == Multiply::fast;
    switch (product) {
      case ProductKind::forward:
        if (fast) return fast_scratch_bytes(Product::forward, dtype, m, n, k);
        [[fallthrough]];
      case ProductKind::expert_forward:
        return reads_plain_weights(dtype) ? 0 : packed_bytes(dtype, n, k);
      case ProductKind::input_gradient:
        return fast ? fast_scratch_bytes(Product::input_gradient, dtype, m, n, k) : 0;
      case ProductKind::weight_gradient:
        return fast ? fast_scratch_bytes(Product::weight_gradient, dtype, m, n, k) : 0;
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
      return fast ? fast_thread_bytes(Product::forward, dtype, m, n, k) : forward_thread_bytes(dtype, m, n, k);
    case ProductKind::input_gradient:
      return fast ? fast_thread_bytes(Product::input_gradient, dtype, m, n, k) : nn_thread_bytes(dtype, m, n, k);
    case ProductKind::weight_gradient:
      return fast ? fast_thread_bytes(Product::weight_gradient, dtype, m, n, k) : tn_thread_bytes(dtype, m, n, k);
    case ProductKind::expert_forward:  // and its gradients, for which unit_cost has no workspace to ask about
      return most(forward_thread_bytes(dtype, m, n, k),
                  most(nn_thread_bytes(dtype, m, n, k), tn_thread_bytes(dtype, m, n, k)));
    case ProductKind::head_loss:
      return {};  // its scratch is the arena's
  }
  return {};
}

int64_t library_bytes(Multiply multiply, DType dtype, ProductKind product, int64_t m, int64_t n, int64_t k) {
  if (dtype == DType::f64 || multiply != Multiply::fast) return 0;
  switch (product) {
    case ProductKind::forward:
      return fast_library_bytes(Product::forward, dtype, m, n, k);
    case ProductKind::input_gradient:
      return fast_library_bytes(Product::input_gradient, dtype, m, n, k);
    case ProductKind::weight_gradient:
      return fast_library_bytes(Product::weight_gradient, dtype, m, n, k);
    case ProductKind::expert_forward:
    case ProductKind::head_loss:
      return 0;  // own kernels
  }
  return 0;
}

Tensor forward_scratch(const Linear& linear, int64_t rows, DType dtype, const Compute& c) {
  if (dtype == DType::f64 || !linear.packed.empty() || rows == 0) return {};
  if (is_fast(linear, c)) {
    const int64_t bytes = fast_scratch_bytes(Product::forward, dtype, rows, linear.out, linear.in);
    return bytes ? c.arena.bytes(bytes, MemoryClass::workspace) : Tensor{};
  }
  if (reads_plain_weights(dtype)) return {};
  Tensor packed = c.arena.bytes(packed_bytes(dtype, linear.out, linear.in), MemoryClass::workspace);
  ops::by_dtype(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>)
      pack_weight<T>(linear.weight.span<T>(), linear.out, linear.in, raw(packed));
  });
  return packed;
}

void linear_forward(const Linear& linear, const Tensor& x, const Tensor& y, const Tensor& scratch, const Compute& c) {
  check_shapes(linear, x, y);
  if (x.count() == 0) return;
  ops::by_dtype(x.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, double>) {
      multiply_ref(x.span<T>(), linear.weight.span<T>(), ops::span_or_none<T>(linear.bias), x.rows(), linear.out,
                   linear.in, false, y.span<T>());
    } else {
      if (y.dtype() == x.dtype()) return forward<T, T>(linear, x, y, scratch, c);
      forward<T, float>(linear, x, y, scratch, c);
    }
  });
}

void linear_forward(const Linear& linear, const Tensor& x, const Tensor& y, const Compute& c) {
  linear_forward(linear, x, y, forward_scratch(linear, x.rows(), x.dtype(), c), c);
}

void linear_backward_input(const Linear& linear, const Tensor& dy, const Tensor& dx, const Compute& c) {
  check_shapes(linear, dx, dy);
  if (dx.count() == 0) return;
  TERN_CHECK(!linear.weight.empty(), "linear ({}, {}): its weights serve the forward only", linear.out, linear.in);
  const int64_t m = dy.rows(), n = linear.out, k = linear.in;
  ops::by_dtype(dy.dtype(), [&]<class T>() {
    const std::span<const T> w = linear.weight.span<T>();
    if constexpr (std::is_same_v<T, double>) {
      multiply_nn_ref(dy.span<T>(), w, m, n, k, false, dx.span<T>());
    } else {
      if (c.multiply == Multiply::exact) return multiply_nn<T>(dy.span<T>(), w, m, n, k, false, dx.span<T>());
      const int64_t bytes = fast_scratch_bytes(Product::input_gradient, dy.dtype(), m, n, k);
      const Tensor scratch = bytes ? c.arena.bytes(bytes, MemoryClass::workspace) : Tensor{};
      multiply_fast_input_gradient<T>(dy.span<T>(), w, m, n, k, false, dx.span<T>(), raw(scratch));
    }
  });
}

void linear_backward_weight(const Tensor& dy, const Tensor& x, const Linear& gradient, const Compute& c) {
  check_shapes(gradient, x, dy);
  if (x.count() == 0) return;
  const int64_t m = dy.rows(), n = gradient.out, k = gradient.in;
  ops::by_dtype(dy.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, double>) {
      multiply_tn_ref(dy.span<T>(), x.span<T>(), m, n, k, gradient.weight.span<double>());
    } else {
      const std::span<float> dw = gradient.weight.span<float>();
      if (c.multiply == Multiply::exact) return multiply_tn<T>(dy.span<T>(), x.span<T>(), m, n, k, dw);
      const int64_t bytes = fast_scratch_bytes(Product::weight_gradient, dy.dtype(), m, n, k);
      const Tensor scratch = bytes ? c.arena.bytes(bytes, MemoryClass::workspace) : Tensor{};
      multiply_fast_weight_gradient<T>(dy.span<T>(), x.span<T>(), m, n, k, dw, raw(scratch));
    }
  });
  if (!gradient.bias.empty()) ops::bias_backward(dy, gradient.bias);
}

}  // namespace tern
