#pragma once
// The part of fast_matmul that calls oneDNN. Two sources implement it, and CMake
// picks one: onednn_matmul.cpp, or onednn_missing.cpp if the library is not built in.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "kernels/onednn/fast_matmul.h"

namespace tern {

/// One product, described by all that determines oneDNN's choice of kernel except the number of threads.
struct OnednnProduct {
  LinearProduct product;
  DType dtype, out;  // dtype: of both operands and the bias; out: of the result
  bool bias, add;
  int64_t m, n, k;  // of the linear layer: x (m, k), w (n, k), y (m, n)
  friend auto operator<=>(const OnednnProduct&, const OnednnProduct&) = default;
};

/// Loads the library; so does the first call of any function below. Does nothing if oneDNN is not built in.
/// Errors  bad_file: the library is missing, or of another version.
void load_onednn();
/// "2.6.3", or empty if not built in.
std::string_view onednn_version();
/// Whether oneDNN is limited to the instructions of the active set. Its one limit,
/// chosen_isa(), is set before its first kernel is made. False if chosen_isa() is `portable`,
/// for which oneDNN has no limit, or if a test has forced an active set below chosen_isa().
bool onednn_is_held();
/// Whether oneDNN multiplies this type on this machine within the active set (bf16 needs AVX-512).
bool onednn_can(DType);
/// The largest instruction set that oneDNN may use, by oneDNN's name ("avx2", "avx512_core" …); empty if not built in.
std::string_view onednn_instructions();
int64_t onednn_scratch_bytes(const OnednnProduct&);
/// The most bytes that a call allocates from the C library and frees again, all threads together, with the present
/// number of threads. 0 unless oneDNN has only its general kernels ("gemm": f32 on avx2; an f32 product that
/// it has no other kernel for), which copy blocks of both factors. Never falls as m grows.
int64_t onednn_hidden_bytes(const OnednnProduct&);
/// The closed form of onednn_hidden_bytes for the general kernels.
int64_t onednn_general_bytes(const OnednnProduct&, bool avx512, int threads);
/// result = a·b (+ bias) (+ result), with a, b: forward x, w; input gradient dy, w; weight gradient dy, x.
void onednn_multiply(const OnednnProduct&, const void* a, const void* b, const void* bias, void* result,
                     std::span<std::byte> scratch);

}  // namespace tern
