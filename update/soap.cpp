// SOAP: Adam in the eigenbasis of Shampoo's two matrices. With g (rows, columns), n = t - 1, and bases whose rows are the vectors:
//   t = 1: only L, R and the bases are made, from g; nothing moves
//   v = β2 v + (1-β2) (A g Bᵀ)²,  m = β1 m + (1-β1) g
//   u = Aᵀ ((A m Bᵀ) / (√v + ε)) B,  w = (w - η √(1-β2ⁿ)/(1-β1ⁿ) u) (1 - ηλ)
//   L = β2 L + (1-β2) g gᵀ,  R = β2 R + (1-β2) gᵀ g;  where `basis-every` divides n: A and B by one step of the power iteration and QR, in
//   the order of their estimated values, and v with them.
// A side longer than `basis-limit` has no basis. Tables and vectors: the same without any.
// Source: Vyas et al. 2024, arXiv:2409.11321 (text not seen); steps and their order as in pytorch-optimizer's SOAP. Ours: where a side is longer
// than the other its first basis is completed by QR, as its eigenvectors of value 0 are nobody's to choose.
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "kernels/lapack/orthonormal_bases.h"
#include "kernels/ref/optimizer_ref.h"
#include "update/elements.h"
#include "update/move_weights.h"
#include "update/products.h"
#include "update/rule.h"

namespace tern {
namespace {

// One matrix; 0: the side has no basis.
template <class T>
struct Sides {
  int64_t rows, columns, left, right;
  std::span<T> first, second, left_sum, right_sum, left_basis, right_basis, temporary;

  // Its elements from `begin` on.
  std::span<T> room(int64_t begin, int64_t count) const {
    TERN_CHECK(begin + count <= std::ssize(temporary), "soap: {} elements to work with, {} wanted", temporary.size(),
               begin + count);
    return temporary.subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
  }
  int64_t count() const { return rows * columns; }
};

template <class T>
Sides<T> sides_of(const UpdateShard& s) {
  const auto slot = [&](size_t i) { return span_or_empty<T>(s.slots[i]); };
  Sides<T> x{.rows = s.form.rows,
             .columns = s.form.columns,
             .left = 0,
             .right = 0,
             .first = slot(0),
             .second = slot(1),
             .left_sum = slot(2),
             .right_sum = slot(3),
             .left_basis = slot(4),
             .right_basis = slot(5),
             .temporary = span_or_empty<T>(s.temporary)};
  x.left = x.left_basis.empty() ? 0 : x.rows, x.right = x.right_basis.empty() ? 0 : x.columns;
  return x;
}

// A x Bᵀ into the second of two matrices at the beginning of the temporary.
template <class T>
std::span<T> turned(const Sides<T>& p, std::span<const T> x) {
  const std::span<T> a = p.room(0, p.count()), b = p.room(p.count(), p.count());
  if (p.left > 0)
    product_nn(p.left_basis, x, p.rows, p.rows, p.columns, a);
  else
    std::ranges::copy(x, a.begin());
  if (p.right == 0) {
    std::ranges::copy(a, b.begin());
    return b;
  }
  const std::span<T> across = p.room(2 * p.count(), p.right * p.right);
  transpose<T>(p.right_basis, p.right, p.right, across);
  product_nn(a, across, p.rows, p.columns, p.columns, b);
  return b;
}

// Aᵀ x B of what turned() left, in its place.
template <class T>
void turn_back(const Sides<T>& p, std::span<T> x) {
  const std::span<T> a = p.room(0, p.count());
  if (p.right > 0)
    product_nn(x, p.right_basis, p.rows, p.columns, p.columns, a);
  else
    std::ranges::copy(x, a.begin());
  if (p.left > 0)
    product_tn(p.left_basis, a, p.rows, p.rows, p.columns, x);
  else
    std::ranges::copy(a, x.begin());
}

// sum = keep·sum + (1 - keep)·outer.
template <class T>
void mix(T keep, std::span<const T> outer, std::span<T> sum) {
  for_each_element(sum.size(), [=](size_t i) { sum[i] += (1 - keep) * (outer[i] - sum[i]); });
}

template <class T>
void add_outer(const Sides<T>& p, T keep, std::span<const T> g) {
  if (p.left > 0) {
    const std::span<T> across = p.room(0, p.count()), outer = p.room(2 * p.count(), p.left * p.left);
    transpose<T>(g, p.rows, p.columns, across);
    product_tn(across, across, p.rows, p.columns, p.rows, outer);
    mix<T>(keep, outer, p.left_sum);
  }
  if (p.right > 0) {
    const std::span<T> outer = p.room(2 * p.count(), p.right * p.right);
    product_tn(g, g, p.columns, p.rows, p.columns, outer);
    mix<T>(keep, outer, p.right_sum);
  }
}

template <class T>
void eigenvectors_of(const Sides<T>& p, std::span<const T> sum, int64_t n, std::span<T> basis) {
  std::ranges::copy(sum, basis.begin());
  eigenvectors<T>(basis, n, p.room(0, n), p.room(n, eigen_work_elements(n)));
}

// The basis of the longer side: g's images of the shorter one's vectors, and what completes them.
template <class T>
void first_bases(const Sides<T>& p, std::span<const T> g) {
  if (p.left == 0 && p.right == 0) return;
  const bool left_is_shorter = p.left > 0 && (p.right == 0 || p.left < p.right);
  if (left_is_shorter)
    eigenvectors_of<T>(p, p.left_sum, p.left, p.left_basis);
  else
    eigenvectors_of<T>(p, p.right_sum, p.right, p.right_basis);
  if (p.left == 0 || p.right == 0) return;
  const auto images = static_cast<size_t>(p.count());
  if (left_is_shorter) {
    product_nn(p.left_basis, g, p.rows, p.rows, p.columns, p.right_basis.first(images));
    orthonormal_rows<T>(p.right_basis, p.right, p.left, p.room(0, basis_work_elements(p.right, p.left)));
  } else {
    const std::span<T> across = p.room(0, p.count());
    transpose<T>(g, p.rows, p.columns, across);
    product_nn(p.right_basis, across, p.columns, p.columns, p.rows, p.left_basis.first(images));
    orthonormal_rows<T>(p.left_basis, p.left, p.right, p.room(0, basis_work_elements(p.left, p.right)));
  }
}

// The places of rows in the order of their estimated values, which fall.
template <class T>
std::vector<int64_t> falling(std::span<const T> basis, std::span<const T> image, int64_t n) {
  std::vector<double> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n * n; ++i)
    values[static_cast<size_t>(i / n)] +=
        static_cast<double>(basis[static_cast<size_t>(i)]) * static_cast<double>(image[static_cast<size_t>(i)]);
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](int64_t i) { return values[static_cast<size_t>(i)]; });
  return order;
}

// One step of the power iteration; `second`, whose side this is, keeps its numbers with their vectors.
template <class T>
void next_basis(const Sides<T>& p, bool is_left) {
  const int64_t n = is_left ? p.left : p.right;
  if (n == 0) return;
  const std::span<T> basis = is_left ? p.left_basis : p.right_basis, sum = is_left ? p.left_sum : p.right_sum,
                     image = p.room(2 * p.count(), n * n), second = p.room(0, p.count());
  product_nn(basis, sum, n, n, n, image);  // rows: the sum's images of the vectors, as it is symmetric
  const std::vector<int64_t> order = falling<T>(basis, image, n);
  for (int64_t i = 0; i < n; ++i)
    std::ranges::copy(image.subspan(static_cast<size_t>(order[static_cast<size_t>(i)] * n), static_cast<size_t>(n)),
                      basis.begin() + i * n);
  std::ranges::copy(p.second, second.begin());
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t c = 0; c < p.columns; ++c) {
      const int64_t from =
          is_left ? order[static_cast<size_t>(r)] * p.columns + c : r * p.columns + order[static_cast<size_t>(c)];
      p.second[static_cast<size_t>(r * p.columns + c)] = second[static_cast<size_t>(from)];
    }
  orthonormal_rows<T>(basis, n, n, p.room(0, basis_work_elements(n, n)));
}

template <class T>
void matrix_step(const UpdateShard& s) {
  const Sides<T> p = sides_of<T>(s);
  const std::span<T> g = s.gradient.span<T>();
  const auto scale = static_cast<T>(s.norm.coefficient);
  for_each_element(g.size(), [=](size_t i) { g[i] *= scale; });
  const double beta1 = s.config.option("beta1"), beta2 = s.config.option("beta2");
  const auto keep1 = static_cast<T>(beta1), keep2 = static_cast<T>(beta2),
             epsilon = static_cast<T>(s.config.option("epsilon"));
  const int64_t n = s.step - 1;
  if (n > 0) {
    std::span<T> x = turned<T>(p, g);
    for_each_element(x.size(), [&](size_t i) { p.second[i] += (1 - keep2) * (x[i] * x[i] - p.second[i]); });
    mix<T>(keep1, g, p.first);
    x = turned<T>(p, p.first);
    for_each_element(x.size(), [&](size_t i) { x[i] /= std::sqrt(p.second[i]) + epsilon; });
    turn_back<T>(p, x);
    const auto steps = static_cast<double>(n);
    const double rate = s.learning_rate * std::sqrt(1 - std::pow(beta2, steps)) / (1 - std::pow(beta1, steps)),
                 decay = s.learning_rate * s.decay();
    move_weights(decay, rate * (1 - decay), x, s);
  }
  add_outer<T>(p, keep2, g);
  if (n == 0)
    first_bases<T>(p, g);
  else if (n % static_cast<int64_t>(s.config.option("basis-every")) == 0)
    next_basis<T>(p, true), next_basis<T>(p, false);
  s.gradient.fill_zero();
}

// AdamW of one step less. Its ε is added to √v/√(1-β2ⁿ), SOAP's to √v.
void plain_step(const UpdateShard& s) {
  if (s.step == 1) return s.gradient.fill_zero();
  AdamwStep step = adamw_step_numbers(s);
  --step.step;
  step.epsilon /= std::sqrt(1 - std::pow(step.beta2, static_cast<double>(step.step)));
  if (s.master.dtype() == DType::f64) {
    adamw_step_ref(step, s.gradient.span<double>(), s.master.span<double>(), s.slots[0].span<double>(),
                   s.slots[1].span<double>());
    return s.gradient.fill_zero();
  }
  adamw_step_and_clear(step, s.gradient.span<float>(), s.master.span<float>(), s.slots[0].span<float>(),
                       s.slots[1].span<float>(), span_or_empty<bf16>(s.compute));
}

void step(const UpdateShard& s) {
  if (s.form.kind != ParameterKind::matrix) return plain_step(s);
  if (s.master.dtype() == DType::f64) return matrix_step<double>(s);
  matrix_step<float>(s);
}

ThreadBytes thread_bytes(const UpdateConfig& c, const ParameterForm& f) {
  ThreadBytes all;
  if (f.kind != ParameterKind::matrix) return all;
  const std::vector<StateSlot>& slots = row_of(c.rule).slots;
  const bool left = slot_elements(c, slots[2], f) > 0, right = slot_elements(c, slots[3], f) > 0;
  const auto side = [&](int64_t n, int64_t other) {
    all = most(all, most(product_nn_thread_bytes(n, n, n), product_tn_thread_bytes(n, other, n)));
  };
  if (left) side(f.rows, f.columns);
  if (left) all = most(all, product_nn_thread_bytes(f.rows, f.rows, f.columns));
  if (left) all = most(all, product_tn_thread_bytes(f.rows, f.rows, f.columns));
  if (right) side(f.columns, f.rows);
  if (right) all = most(all, product_nn_thread_bytes(f.rows, f.columns, f.columns));
  if (right && left) all = most(all, product_nn_thread_bytes(f.columns, f.columns, f.rows));
  return all;
}

}  // namespace

const UpdateFunctions soap_rule{.step = step, .thread_bytes = thread_bytes};

}  // namespace tern
