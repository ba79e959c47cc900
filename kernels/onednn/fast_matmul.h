#pragma once
// Matrix products for training: by oneDNN if it is built in and was not measured to be slower, else by our own kernels
// (fast_matmul_name() says which). oneDNN never uses instructions beyond the chosen set's (kernels/dispatch.h): if it cannot
// be limited to them, our own kernels multiply. A row's bits depend on the number of rows, as oneDNN picks kernels by
// shape. They are the same for equal shapes, threads and machine. The caller provides the scratch memory, so that it is counted.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "kernels/cpu/thread_scratch.h"

namespace tern {

/// Which of the three products of a linear layer y = x·wᵀ: forward, input gradient, weight gradient.
enum class LinearProduct : uint8_t { forward, input_gradient, weight_gradient };

/// Loads oneDNN, if it is built in, so that resident bytes measured from
/// here on include it. Without this call the first product loads it.
void load_fast_matmul();
std::string_view fast_matmul_name();  // "oneDNN 2.6.3" or "own kernels"; both if each multiplies some products
std::string fast_matmul_name(DType);  // the same for forward products in this type

/// Which code multiplies one kind of product in one type, and why.
struct MatmulChoice {
  DType dtype;
  LinearProduct product;
  bool by_onednn;
  double own_to_onednn;  // measured rates: our kernels' / oneDNN's; 0: not measured, then oneDNN multiplies if it can
  std::string text;      // for `tern doctor`
};
std::vector<MatmulChoice> fast_matmul_choices();
/// Whether oneDNN multiplies. false: our own kernels do, so a row's bits do not depend on the number of rows.
bool is_by_onednn(LinearProduct, DType);

/// Bytes of scratch that a product of this shape needs with the present number of OpenMP
/// threads: the most over its variants (bias, add, output type). m rows, w (n, k). f32 and bf16.
int64_t fast_scratch_bytes(LinearProduct, DType, int64_t m, int64_t n, int64_t k);
/// Bytes that threads keep beside that scratch, for products of up to m rows.
ThreadBytes fast_thread_bytes(LinearProduct, DType, int64_t m, int64_t n, int64_t k);
/// The most bytes that the library takes during such a product and then gives back, in all threads together.
int64_t fast_library_bytes(LinearProduct, DType, int64_t m, int64_t n, int64_t k);

/// y (m, n) = x (m, k)·wᵀ + bias (bias (n) or empty); Out is T or float.
template <class T, class Out>
void multiply_fast(std::span<const T> x, std::span<const T> w, std::span<const T> bias, int64_t m, int64_t n, int64_t k,
                   std::span<Out> y, std::span<std::byte> scratch);
/// dx (m, k) = dy (m, n)·w;  if `add`, dx +=.
template <class T>
void multiply_fast_input_gradient(std::span<const T> dy, std::span<const T> w, int64_t m, int64_t n, int64_t k,
                                  bool add, std::span<T> dx, std::span<std::byte> scratch);
/// dw (n, k) += dyᵀ·x in f32.
template <class T>
void multiply_fast_weight_gradient(std::span<const T> dy, std::span<const T> x, int64_t m, int64_t n, int64_t k,
                                   std::span<float> dw, std::span<std::byte> scratch);

}  // namespace tern
