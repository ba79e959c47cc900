#include "model/linear.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "base/wide_type.h"
#include "kernels/cpu/coded_int8.h"
#include "kernels/cpu/coded_matmul.h"
#include "kernels/cpu/head_loss.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/product_columns.h"
#include "kernels/onednn/fast_matmul.h"
#include "kernels/ref/matmul_ref.h"
#include "model/elastic.h"
#include "model/ops.h"
#include "model/row_lengths.h"
#include "store/extent_ring.h"
#include "tensor/bytes_of.h"

namespace tern {

namespace {

// Where a product writes: a matrix from its column `first` on.
struct WrittenColumns {
  const Tensor& whole;
  int64_t first = 0;
};

// The forward product of each form of a weight.
template <class T, class Out>
void forward(const Linear& linear, const Tensor& x, const WrittenColumns& y, const Tensor& scratch, const Compute& c) {
  const int64_t m = x.rows(), n = linear.out, k = linear.in;
  const std::span<const T> from = x.span<T>(), bias = ops::span_or_none<T>(linear.bias);
  if (m == 0 || n == 0) return;
  const int64_t stride = y.whole.count() / m;
  const std::span<Out> to =
      y.whole.span<Out>().subspan(static_cast<size_t>(y.first), static_cast<size_t>(columns_extent(m, n, stride)));
  if (const auto* dense = std::get_if<DenseWeight>(&linear.weight)) {
    const std::span<const T> w = dense->rows.span<T>();
    if (c.multiply == Multiply::fast) {
      TERN_CHECK(stride == n, "linear ({}, {}): a fast product of a part of a matrix", n, k);
      return multiply_fast<T, Out>(from, w, bias, m, n, k, to, bytes_of(scratch));
    }
    if (!reads_plain_weights(x.dtype()))
      return multiply_exact<T, Out>(from, bytes_of(scratch), bias, m, n, k, false, to, stride);
    const WeightRows<T> rows{w.data(), n};
    return multiply_plain<T, Out>(from, {&rows, 1}, bias, m, n, k, false, to, stride);
  }
  if (const auto* packed = std::get_if<PackedWeight>(&linear.weight))
    return multiply_exact<T, Out>(from, bytes_of(packed->bytes), bias, m, n, k, false, to, stride);
  if (const auto* coded = std::get_if<CodedWeight>(&linear.weight)) {
    const std::vector<CodedRows> rows = ops::coded_rows(*coded);
    if (coded->in_integers) return multiply_coded_int8<T, Out>(from, rows, bias, m, n, k, false, to, stride);
    return multiply_coded<T, Out>(from, rows, bias, m, n, k, false, to, stride);
  }
  const std::vector<WeightRows<T>> rows = ops::weight_rows<T>(std::get<RowPieces>(linear.weight).pieces);
  multiply_plain<T, Out>(from, rows, bias, m, n, k, false, to, stride);
}

void check_shapes(const Linear& linear, const Tensor& rows_in, const Tensor& rows_out) {
  TERN_CHECK(rows_in.count() == rows_in.rows() * linear.in && rows_out.count() == rows_in.rows() * linear.out,
             "linear ({}, {}): in {}, out {}", linear.out, linear.in, to_string(rows_in.shape()),
             to_string(rows_out.shape()));
}

}  // namespace

bool is_trained(const Linear& gradient) { return !std::holds_alternative<NotTrained>(gradient.weight); }

const Tensor& dense_rows(const Linear& linear) {
  const auto* dense = std::get_if<DenseWeight>(&linear.weight);
  TERN_CHECK(dense, "linear ({}, {}): its weights stand in a form that serves the forward only", linear.out, linear.in);
  return dense->rows;
}
Tensor& dense_rows(Linear& linear) { return const_cast<Tensor&>(dense_rows(std::as_const(linear))); }

int64_t forward_scratch_bytes(const Linear& linear, int64_t rows, DType dtype, Multiply multiply) {
  if (!std::holds_alternative<DenseWeight>(linear.weight) || dtype == DType::f64 || rows == 0) return 0;
  if (multiply == Multiply::fast) return fast_scratch_bytes(LinearProduct::forward, dtype, rows, linear.out, linear.in);
  return reads_plain_weights(dtype) ? 0 : packed_bytes(dtype, linear.out, linear.in);
}

Tensor forward_scratch(const Linear& linear, int64_t rows, DType dtype, const Compute& c) {
  const int64_t bytes = forward_scratch_bytes(linear, rows, dtype, c.multiply);
  if (bytes == 0) return {};
  Tensor scratch = c.arena.bytes(bytes, MemoryClass::workspace);
  if (c.multiply == Multiply::fast) return scratch;
  ops::by_dtype(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>)
      pack_weight<T>(dense_rows(linear).span<T>(), linear.out, linear.in, bytes_of(scratch));
  });
  return scratch;
}

bool multiplies_as_streamed(WeightType type, int64_t head_dim, int64_t place, DType dtype) {
  if (multiplies_coded(dtype)) return true;
  const WeightType plain = dtype == DType::bf16 ? WeightType::bf16 : WeightType::f32;
  return reads_plain_weights(dtype) && type == plain && head_dim == 0 && place % size_of(dtype) == 0;
}

Linear readable(const Linear& linear, DType dtype, const Compute& c) {
  const auto* coded = std::get_if<CodedWeight>(&linear.weight);
  if (!coded || coded->in_integers || multiplies_blocks(c.multiply, dtype)) return linear;
  const Tensor rows = c.arena.allocate(dtype, {linear.out, linear.in}, MemoryClass::workspace);
  ops::decode_rows(*coded, rows);
  return {DenseWeight{rows}, linear.bias, linear.out, linear.in, linear.branches};
}

namespace {

void multiply_bands(const Linear&, const BandedWeight&, const Tensor& x, const Tensor& y, const Compute&);

void multiply_forward(const Linear& linear, const Tensor& x, const WrittenColumns& y, const Tensor& scratch,
                      const Compute& c) {
  if (std::holds_alternative<CodedWeight>(linear.weight))
    if (const Linear rows = readable(linear, x.dtype(), c); std::holds_alternative<DenseWeight>(rows.weight))
      return multiply_forward(rows, x, y, forward_scratch(rows, x.rows(), x.dtype(), c), c);
  if (const auto* banded = std::get_if<BandedWeight>(&linear.weight))
    return multiply_bands(linear, *banded, x, y.whole, c);
  ops::by_dtype(x.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, double>) {
      TERN_CHECK(y.whole.count() == x.rows() * linear.out, "linear ({}, {}): a part of a matrix in f64", linear.out,
                 linear.in);
      multiply_ref(x.span<T>(), dense_rows(linear).span<T>(), ops::span_or_none<T>(linear.bias), x.rows(), linear.out,
                   linear.in, false, y.whole.span<T>());
    } else {
      if (y.whole.dtype() == x.dtype()) return forward<T, T>(linear, x, y, scratch, c);
      forward<T, float>(linear, x, y, scratch, c);
    }
  });
}

// One band's rows as a product takes them, decoded if need be.
Weight streamed_rows(const WeightBand& band, std::span<const std::byte> bytes, int64_t in, DType dtype,
                     const Compute& c) {
  auto* const at = const_cast<std::byte*>(bytes.data());  // kernels only read it
  const bool as_it_lies =
      band.in_integers || multiplies_as_streamed(band.type, band.head_dim, reinterpret_cast<intptr_t>(at), dtype);
  if (as_it_lies && !band.in_integers && !multiplies_coded(dtype))
    return RowPieces{{Tensor::borrow(dtype, {band.rows, in}, at)}};
  const Tensor rows = Tensor::borrow(DType::u8, {static_cast<int64_t>(bytes.size())}, at);
  CodedWeight coded{{{band.type, rows, band.rows, band.head_dim, band.tables}}, band.in_integers};
  if (as_it_lies) return coded;
  return RowPieces{{ops::decoded_rows(coded.pieces.front(), in, dtype, MemoryClass::workspace, c.arena)}};
}

// y = x·wᵀ + b, band by band, each in its columns of y.
void multiply_bands(const Linear& linear, const BandedWeight& w, const Tensor& x, const Tensor& y, const Compute& c) {
  int64_t row = 0;
  for (const WeightBand& band : w.bands) {
    const int64_t end = row + band.rows;
    Linear part{.out = band.rows, .in = linear.in};
    if (!linear.bias.empty()) part.bias = linear.bias.rows_view(row, end);
    std::optional<ExtentLease> lease;
    if (band.ring)
      part.weight = streamed_rows(band, lease.emplace(*band.ring, band.place).bytes(), linear.in, x.dtype(), c);
    else
      std::visit([&](const auto& kept) { part.weight = kept; }, band.kept);
    multiply_forward(part, x, {y, row}, {}, c);
    row = end;
  }
}

// dx = dy·w, or dx += dy·w
void multiply_input(const Tensor& w, const Tensor& dy, bool add, const Tensor& dx, const Compute& c) {
  const int64_t m = dy.rows(), n = w.rows(), k = w.count() / w.rows();
  ops::by_dtype(dy.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, double>) {
      multiply_nn_ref(dy.span<T>(), w.span<T>(), m, n, k, add, dx.span<T>());
    } else {
      const std::span<const T> rows = w.span<T>();
      if (c.multiply == Multiply::exact) return multiply_nn<T>(dy.span<T>(), rows, m, n, k, add, dx.span<T>());
      const int64_t bytes = fast_scratch_bytes(LinearProduct::input_gradient, dy.dtype(), m, n, k);
      const Tensor scratch = bytes ? c.arena.bytes(bytes, MemoryClass::workspace) : Tensor{};
      multiply_fast_input_gradient<T>(dy.span<T>(), rows, m, n, k, add, dx.span<T>(), bytes_of(scratch));
    }
  });
}

// dw += dyᵀ·x
void multiply_weight(const Tensor& dy, const Tensor& x, const Tensor& dw, const Compute& c) {
  const int64_t m = dy.rows(), n = dw.rows(), k = dw.count() / dw.rows();
  ops::by_dtype(dy.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, double>) {
      multiply_tn_ref(dy.span<T>(), x.span<T>(), m, n, k, dw.span<double>());
    } else {
      const std::span<float> to = dw.span<float>();
      if (c.multiply == Multiply::exact) return multiply_tn<T>(dy.span<T>(), x.span<T>(), m, n, k, to);
      const int64_t bytes = fast_scratch_bytes(LinearProduct::weight_gradient, dy.dtype(), m, n, k);
      const Tensor scratch = bytes ? c.arena.bytes(bytes, MemoryClass::workspace) : Tensor{};
      multiply_fast_weight_gradient<T>(dy.span<T>(), x.span<T>(), m, n, k, to, bytes_of(scratch));
    }
  });
}

// dx = dy·w of a matrix of the model's own.
void multiply_input(const Linear& linear, const Tensor& dy, const Tensor& dx, const Compute& c) {
  const Linear own = readable(linear, dy.dtype(), c);
  const auto* coded = std::get_if<CodedWeight>(&own.weight);
  if (!coded) return multiply_input(dense_rows(own), dy, false, dx, c);
  TERN_CHECK(!coded->in_integers, "linear ({}, {}): products in integers serve the forward only", own.out, own.in);
  ops::by_dtype(dy.dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>)
      multiply_coded_nn<T>(dy.span<T>(), ops::coded_rows(*coded), dy.rows(), own.out, own.in, false, dx.span<T>());
  });
}

Tensor workspace(const Tensor& like, int64_t width, const Compute& c) {
  return c.arena.allocate(like.dtype(), {like.rows(), width}, MemoryClass::workspace);
}

// x·wᵀ as workspace.
Tensor product_of(const Tensor& x, const Tensor& w, const Compute& c) {
  const Tensor y = workspace(x, w.rows(), c);
  linear_forward({.weight = DenseWeight{w}, .out = w.rows(), .in = w.count() / w.rows()}, x, y, c);
  return y;
}

bool drops(const Branch& b, const Compute& c) { return b.dropout > 0 && c.dropout; }

// What dropout leaves of x.
void drop_inputs(const Branch& b, const Tensor& x, const Compute& c) {
  const DropoutPlace& at = *c.dropout;
  const int64_t half = at.gap ? x.rows() / 2 : x.rows();
  ops::drop(b.dropout, {at.seed, b.stream}, at.step, at.first_row, x.rows_view(0, half));
  if (!at.gap) return;
  ops::drop(b.dropout, {at.seed, b.stream}, at.step, at.first_row + half + at.gap, x.rows_view(half, x.rows()));
}

// What A reads: x itself, or as workspace means of it, or what dropout leaves of either.
Tensor inputs_of(const Branch& b, const Tensor& x, const Compute& c) {
  if (b.pool == 1 && !drops(b, c)) return x;
  const Tensor read = workspace(x, x.count() / x.rows() / b.pool, c);
  b.pool == 1 ? ops::copy(x, read) : ops::pool_columns(x, b.pool, read);
  if (drops(b, c)) drop_inputs(b, read, c);
  return read;
}

// The branch's columns of dy, those that one row of B stands for summed: dy itself where it has no others.
Tensor columns_of(const Branch& b, const Tensor& dy, const Compute& c) {
  const int64_t rows = b.row_end - b.row_begin;
  if (b.repeat == 1 && dy.count() == dy.rows() * rows) return dy;
  const Tensor columns = workspace(dy, rows / b.repeat, c);
  b.repeat == 1 ? ops::copy_columns(dy, b.row_begin, columns) : ops::sum_columns(dy, b.row_begin, b.repeat, columns);
  return columns;
}

// g = s·dy·B
Tensor hidden_gradient(const Branch& b, const Tensor& dy_columns, const Compute& c) {
  const Tensor g = workspace(dy_columns, b.rank, c);
  multiply_input(b.b, dy_columns, false, g, c);
  if (b.is_elastic) add_elastic_gradient(shares_of(b).of_hidden, dy_columns, g);
  if (b.scale != 1) ops::scale(b.scale, g);
  return g;
}

// A·x, and what joins it; workspace of the means ends with it. h comes first, so that nothing lies between.
Tensor product_of_inputs(const Branch& b, const Tensor& x, const Compute& c) {
  const Tensor h = workspace(x, b.rank, c);
  const Tensor inputs = inputs_of(b, x, c);
  linear_forward({.weight = DenseWeight{b.a}, .out = b.rank, .in = b.a.count() / b.rank}, inputs, h, c);
  if (b.is_elastic) add_elastic(shares_of(b).of_inputs, x, h);
  return h;
}

void branch_input(const Branch& b, const Tensor& dy, const Tensor& dx, const Compute& c) {
  const Compute adding{c.arena, Multiply::exact};  // own kernels add without scratch
  const Tensor g = hidden_gradient(b, columns_of(b, dy, c), c);
  if (b.is_elastic) add_elastic_gradient(shares_of(b).of_inputs, g, dx);
  if (b.pool == 1 && !drops(b, c)) return multiply_input(b.a, g, true, dx, adding);
  const Tensor read = workspace(g, b.a.count() / b.rank, c);
  multiply_input(b.a, g, false, read, adding);
  if (drops(b, c)) drop_inputs(b, read, c);
  b.pool == 1 ? ops::add(read, dx) : ops::add_pooled_gradient(read, b.pool, dx);
}

void branch_forward(const Branch& b, const Tensor& x, const Tensor& y, const Compute& c) {
  const Tensor h = product_of_inputs(b, x, c), change = product_of(h, b.b, c);
  if (b.is_elastic) add_elastic(shares_of(b).of_hidden, h, change);
  b.repeat == 1 ? ops::add_columns(b.scale, change, y, b.row_begin)
                : ops::add_repeated_columns(b.scale, change, b.repeat, y, b.row_begin);
}

// The branch's columns of y by the factors of its rows; the bias is none of what they lengthen.
void lengthen(const Linear& linear, const Branch& b, const Tensor& y) {
  if (!b.has_magnitude) return;
  const Tensor bias = linear.bias.empty() ? Tensor{} : linear.bias.rows_view(b.row_begin, b.row_end);
  ops::scale_columns(b.factors, bias, y, b.row_begin);
}

// Each row's own: the rows of one adapter stand together.
void branches_forward(const Linear& linear, const Tensor& x, const Tensor& y, const Compute& c) {
  for (const Branch& b : linear.branches) {
    if (b.adapter == Branch::kEveryRow) {
      branch_forward(b, x, y, c);
      lengthen(linear, b, y);
    } else if (!c.adapter_rows.empty()) {
      const auto at = static_cast<size_t>(b.adapter);
      TERN_CHECK(at + 1 < c.adapter_rows.size() && c.adapter_rows.back() == x.rows(),
                 "linear ({}, {}): adapter {}, rows of {} adapters up to {}, x has {}", linear.out, linear.in,
                 b.adapter, c.adapter_rows.size() - 1, c.adapter_rows.back(), x.rows());
      const int64_t begin = c.adapter_rows[at], end = c.adapter_rows[at + 1];
      if (begin == end) continue;
      branch_forward(b, x.rows_view(begin, end), y.rows_view(begin, end), c);
      lengthen(linear, b, y.rows_view(begin, end));
    }
  }
}

void branch_weight(const Branch& b, const Tensor& dy, const Tensor& x, const Branch& gradient, const Compute& c) {
  Tensor columns = columns_of(b, dy, c);
  {
    const Tensor h = product_of_inputs(b, x, c);
    if (b.scale != 1) ops::scale(b.scale, h);
    multiply_weight(columns, h, gradient.b, c);
    if (b.is_elastic) add_to_shares({.of_hidden = elastic_product(columns, h)}, gradient);
  }
  const Tensor g = hidden_gradient(b, columns, c);
  columns = {};
  if (b.is_elastic) add_to_shares({.of_inputs = elastic_product(g, x)}, gradient);
  multiply_weight(g, inputs_of(b, x, c), gradient.a, c);
}

bool lengthens(const Linear& linear) {
  return std::ranges::any_of(linear.branches, [](const Branch& b) { return b.has_magnitude; });
}
// Whether rows have magnitudes whose factors change with A and B: they are made for each pass.
bool lacks_factors(const Linear& linear) {
  return std::ranges::any_of(linear.branches, [](const Branch& b) { return b.has_magnitude && b.factors.empty(); });
}

// A of all branches with a magnitude, one below the other.
Tensor stacked_a(const Linear& linear, const Compute& c) {
  std::vector<const Branch*> with;
  int64_t ranks = 0;
  for (const Branch& b : linear.branches)
    if (b.has_magnitude) with.push_back(&b), ranks += b.rank;
  if (with.size() == 1) return with[0]->a;
  const Tensor a = c.arena.allocate(with[0]->a.dtype(), {ranks, linear.in}, MemoryClass::workspace);
  int64_t row = 0;
  for (const Branch* b : with) ops::copy(b->a, a.rows_view(row, row + b->rank)), row += b->rank;
  return a;
}

// The linear with factors of rows, m/‖w + s·b·a‖, as workspace.
Linear with_factors(const Linear& linear, DType dtype, const Compute& c) {
  Linear whole = linear;
  for (Branch& b : whole.branches)
    if (b.has_magnitude) {
      const int64_t rows = b.row_end - b.row_begin;
      b.factors = c.arena.allocate(DType::f64, {rows}, MemoryClass::workspace);
      if (b.lengths.empty()) b.lengths = c.arena.allocate(DType::f64, {rows}, MemoryClass::workspace);
    }
  Linear own{.weight = linear.weight, .bias = {}, .out = linear.out, .in = linear.in};
  const Tensor a = stacked_a(linear, c);
  const Tensor aw = c.arena.allocate(wide_type(dtype), {a.rows(), linear.out}, MemoryClass::workspace);
  const Compute plain{c.arena, c.multiply};
  multiply_forward(own, a, {aw}, forward_scratch(own, a.rows(), dtype, plain), plain);
  int64_t row = 0;
  for (size_t i = 0; i < whole.branches.size(); ++i) {
    const Branch& b = whole.branches[i];
    if (!b.has_magnitude) continue;
    if (linear.branches[i].lengths.empty()) row_lengths(b, aw.rows_view(row, row + b.rank));
    row_factors(b), row += b.rank;
  }
  return whole;
}

// dy by the factors of rows, where there are any.
Tensor by_factors(const Linear& linear, const Tensor& dy, const Compute& c) {
  if (!lengthens(linear)) return dy;
  const Tensor d = workspace(dy, linear.out, c);
  ops::copy(dy, d);
  for (const Branch& b : linear.branches)
    if (b.has_magnitude) ops::scale_columns(b.factors, {}, d, b.row_begin);
  return d;
}

// Of magnitudes: Σ over tokens of dy·(w + s·b·a)·x/‖w + s·b·a‖, which is made again.
void magnitude_weight(const Linear& linear, const Tensor& dy, const Tensor& x, const Linear& gradient,
                      const Compute& c) {
  if (!lengthens(linear)) return;
  const Tensor y = workspace(x, linear.out, c);
  Linear own{.weight = linear.weight, .bias = {}, .out = linear.out, .in = linear.in};
  multiply_forward(own, x, {y}, forward_scratch(own, x.rows(), x.dtype(), c), c);
  for (size_t i = 0; i < linear.branches.size(); ++i) {
    const Branch& b = linear.branches[i];
    if (!b.has_magnitude) continue;
    branch_forward(b, x, y, c);
    magnitude_gradient(b, dy, y, gradient.branches[i].magnitude);
  }
}

}  // namespace

void linear_forward(const Linear& linear, const Tensor& x, const Tensor& y, const Tensor& scratch, const Compute& c) {
  check_shapes(linear, x, y);
  if (x.count() == 0) return;
  if (c.observer) c.observer->see(linear, x);
  multiply_forward(linear, x, {y}, scratch, c);
  branches_forward(linear, x, y, c);
}

void linear_forward(const Linear& linear, const Tensor& x, const Tensor& y, const Compute& c) {
  check_shapes(linear, x, y);
  if (x.count() == 0) return;
  if (c.observer) c.observer->see(linear, x);
  if (lacks_factors(linear)) {
    const Linear whole = with_factors(linear, x.dtype(), c);
    multiply_forward(whole, x, {y}, forward_scratch(whole, x.rows(), x.dtype(), c), c);
    return branches_forward(whole, x, y, c);
  }
  multiply_forward(linear, x, {y}, forward_scratch(linear, x.rows(), x.dtype(), c), c);
  branches_forward(linear, x, y, c);
}

void linear_backward_input(const Linear& linear, const Tensor& dy, const Tensor& dx, const Compute& c) {
  check_shapes(linear, dx, dy);
  if (dx.count() == 0) return;
  if (lacks_factors(linear)) return linear_backward_input(with_factors(linear, dy.dtype(), c), dy, dx, c);
  const Tensor d = by_factors(linear, dy, c);
  multiply_input(linear, d, dx, c);
  for (const Branch& b : linear.branches) branch_input(b, d, dx, c);
}

void linear_backward_weight(const Linear& linear, const Tensor& dy, const Tensor& x, const Linear& gradient,
                            const Compute& c) {
  check_shapes(gradient, x, dy);
  if (x.count() == 0) return;
  if (lacks_factors(linear)) return linear_backward_weight(with_factors(linear, dy.dtype(), c), dy, x, gradient, c);
  // Branches behind those that have gradients are not trained.
  TERN_CHECK(gradient.branches.size() <= linear.branches.size(), "linear ({}, {}): {} branches, gradients of {}",
             linear.out, linear.in, linear.branches.size(), gradient.branches.size());
  magnitude_weight(linear, dy, x, gradient, c);
  const Tensor d = by_factors(linear, dy, c);
  if (is_trained(gradient)) {
    multiply_weight(d, x, dense_rows(gradient), c);
    if (!gradient.bias.empty()) ops::bias_backward(dy, gradient.bias);
  }
  for (size_t i = 0; i < gradient.branches.size(); ++i)
    branch_weight(linear.branches[i], d, x, gradient.branches[i], c);
}

}  // namespace tern
