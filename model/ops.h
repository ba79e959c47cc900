#pragma once
// Arithmetic on tensors. Each op looks at the dtype once and calls the kernel: the CPU kernel for f32 and bf16; for f64
// its plain twin, or the kernel itself if it takes doubles. An empty tensor means that there is none (no bias, no statistics kept). Shapes as in kernels/cpu/.

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "kernels/cpu/coded_rows.h"
#include "kernels/cpu/weight_rows.h"
#include "model/rope_table.h"
#include "model/weights.h"

namespace tern::ops {

/// Calls f.operator()<T>() with T the type of the dtype: float, bf16 or double.
template <class F>
void by_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::bf16:
      return f.template operator()<bf16>();
    case DType::f64:
      return f.template operator()<double>();
    default:
      TERN_CHECK(false, "model: no unit computes in {}", name_of(dtype));
  }
}

/// The elements of a tensor; an empty span for an empty tensor.
template <class T>
std::span<T> span_or_none(const Tensor& t) {
  return t.empty() ? std::span<T>{} : t.span<T>();
}

/// Matrices stacked by rows, in the form in which kernels take the rows of a weight.
template <class T>
std::vector<WeightRows<T>> weight_rows(std::span<const Tensor> pieces) {
  std::vector<WeightRows<T>> rows;
  for (const Tensor& piece : pieces) rows.push_back({piece.span<T>().data(), piece.rows()});
  return rows;
}

/// If there is no norm (NormSpec::present), x is copied and no weights get a gradient. A frozen unit's weights get none
/// either: their gradients are empty tensors.
void norm(const NormSpec&, const NormWeights&, const Tensor& x, const Tensor& y, const Tensor& mean,
          const Tensor& rstd);
void norm_backward_input(const NormSpec&, const NormWeights&, const Tensor& dy, const Tensor& x, const Tensor& mean,
                         const Tensor& rstd, const Tensor& dx);
void norm_backward_weight(const NormSpec&, const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                          const NormWeights& gradient);

/// y = act(up). If the unit is gated, up_TG holds the gate too, and y = act(gate)·up; with bounds, the formula of GateBounds.
/// activation_backward computes dup from up and dy, and y once more unless y is empty. y and dy may be one tensor; kernels/cpu/activation.h says when dup and up may be.
void activation(const MlpSpec&, const Tensor& up_TG, const Tensor& y_TF);
void activation_backward(const MlpSpec&, const Tensor& up_TG, const Tensor& dy_TF, const Tensor& y_TF,
                         const Tensor& dup_TG);

/// Applies rotary embedding, or its inverse, to the first `heads` heads of every row of x (rows, row_stride).
void rope(const RopeSpec&, const RopeTable&, std::span<const int32_t> positions, int64_t heads, int64_t head_dim,
          bool inverse, const Tensor& x);

/// Norms each of `groups` parts of every row of x (rows, row_stride) by itself. The parts begin at column `offset`, each as
/// wide as `w`. The same columns of y are overwritten; rstd (rows, groups), or empty.
void head_norm(const NormSpec&, const NormWeights& w, const Tensor& x, int64_t offset, int64_t groups, const Tensor& y,
               const Tensor& rstd);
/// d is overwritten: the gradient of the normed parts becomes the gradient of x's parts. dw += the gradient of the norm's weights.
void head_norm_backward(const NormSpec&, const NormWeights& w, const Tensor& x, int64_t offset, int64_t groups,
                        const Tensor& rstd, const Tensor& d, const Tensor& dw);

void add(const Tensor& x, const Tensor& y);  // y += x
/// dw += x, unless dw is empty.
void add_gradient(const Tensor& x, const Tensor& dw);
/// copy_columns: y (rows, n) = columns [column, column + n) of x. add_columns: those columns of y += factor·x (rows, n).
void copy_columns(const Tensor& x, int64_t column, const Tensor& y);
void add_columns(double factor, const Tensor& x, const Tensor& y, int64_t column);
/// add_repeated_columns adds factor·(column j of x) to `repeat` neighbouring columns of y, from y's column `column` + j·repeat on.
/// sum_columns: column j of y (rows, n) = the sum of `repeat` neighbouring columns of x, from x's column `column` + j·repeat on, in order.
void add_repeated_columns(double factor, const Tensor& x, int64_t repeat, const Tensor& y, int64_t column);
void sum_columns(const Tensor& x, int64_t column, int64_t repeat, const Tensor& y);
/// pool_columns: y (rows, n) = means of each `pool` neighbouring columns of x (rows, n·pool), summed in order.
/// add_pooled_gradient, its backward: each of the `pool` columns of x += y/pool.
void pool_columns(const Tensor& x, int64_t pool, const Tensor& y);
void add_pooled_gradient(const Tensor& y, int64_t pool, const Tensor& x);
/// Columns [column, column + n) of every row of y become bias + f·(y - bias), with
/// factors f (n) in f64 and bias (n), or empty for 0. Each number is rounded once.
void scale_columns(const Tensor& factors, const Tensor& bias, const Tensor& y, int64_t column);
/// Dropout of x (rows, n): each number becomes 0 with probability `share`, or is multiplied by 1/(1 - share). Which ones
/// become 0 depends on key, step and the place (first_row + row)·n + column alone.
void drop(double share, RngKey, int64_t step, int64_t first_row, const Tensor& x);
void add_and_clear(const Tensor& x, const Tensor& y);  // y += x, x = 0; f32 or f64
void copy(const Tensor& x, const Tensor& y);
void scale(double factor, const Tensor& y);  // y *= factor
void softcap(double cap, const Tensor& y);   // y = cap·tanh(y/cap), of f32 or f64
/// The pieces of a coded weight as kernels take them.
std::vector<CodedRows> coded_rows(const CodedWeight&);
/// The rows (rows, in) that a piece decodes to, rounded to `dtype` once: f32 or bf16.
Tensor decoded_rows(const CodedPiece&, int64_t in, DType dtype, MemoryClass, Arena&);
/// Decodes all pieces, stacked by rows, into `rows` (out, in), which may be f64 too.
void decode_rows(const CodedWeight&, const Tensor& rows);
/// As gather_rows, from a table that is one coded piece; the bits are those of its decoded rows.
void gather_coded_rows(const CodedWeight& table, std::span<const int32_t> ids, const Tensor& y);
/// d *= 1 - (y/cap)², where y is what softcap returned.
void softcap_backward(double cap, const Tensor& y, const Tensor& d);
void gather_rows(const Tensor& table, std::span<const int32_t> ids, const Tensor& y);
void gather_rows_add(const Tensor& table, std::span<const int32_t> ids, const Tensor& y);
void scatter_rows_add(const Tensor& dy, std::span<const int32_t> ids, const Tensor& dtable);
void bias_backward(const Tensor& dy, const Tensor& db);  // db += Σ rows of dy
/// f32 → bf16, rounding to nearest.
void round_to(const Tensor& x, const Tensor& y);

/// logits (rows, V) become scale·(softmax - onehot), losses (rows) -log p; rows with target < 0: zero.
void cross_entropy_forward_backward(std::span<const int32_t> targets, double scale, const Tensor& logits,
                                    const Tensor& losses);
void cross_entropy(std::span<const int32_t> targets, const Tensor& logits, const Tensor& losses);

}  // namespace tern::ops
