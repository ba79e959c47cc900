#include "update/galore.h"

#include "base/error.h"
#include "kernels/lapack/orthonormal_bases.h"
#include "kernels/ref/optimizer_ref.h"
#include "update/elements.h"
#include "update/move_weights.h"
#include "update/products.h"

namespace tern {
namespace {

// One matrix. `side` is the shorter one, of whose directions `rank` are kept.
struct Projection {
  int64_t rows, columns, side, rank;
  bool right;  // columns are projected
  int64_t count() const { return rows * columns; }
  ParameterForm form() const { return projected_form(rank, {ParameterKind::matrix, rows, columns}); }
};

Projection projection_of(const UpdateConfig& c, const ParameterForm& f) {
  const int64_t side = std::min(f.rows, f.columns);
  return {f.rows, f.columns, side, projection_rank(c, f), f.rows >= f.columns};
}

// The sum of squares over the longer side, (side, side).
template <class T>
void square_of(const Projection& p, std::span<const T> g, std::span<T> across, std::span<T> square) {
  if (p.right) return product_tn(g, g, p.columns, p.rows, p.columns, square);
  const std::span<T> turned = across.first(g.size());
  transpose<T>(g, p.rows, p.columns, turned);
  product_tn(turned, turned, p.rows, p.columns, p.rows, square);
}

template <class T>
void new_basis(const Projection& p, std::span<const T> g, std::span<T> basis, std::span<T> room) {
  const auto square = static_cast<size_t>(p.side * p.side), values = static_cast<size_t>(p.side);
  const std::span<T> vectors = room.first(square), rest = room.subspan(square);
  square_of<T>(p, g, rest, vectors);
  eigenvectors<T>(vectors, p.side, rest.first(values), rest.subspan(values));
  std::ranges::copy(vectors.first(basis.size()), basis.begin());
}

template <class T>
void project(const Projection& p, std::span<const T> basis, std::span<const T> g, std::span<T> low, std::span<T> room) {
  if (!p.right) return product_nn(basis, g, p.rank, p.rows, p.columns, low);
  const std::span<T> across = room.first(basis.size());
  transpose<T>(basis, p.rank, p.columns, across);
  product_nn(g, across, p.rows, p.columns, p.rank, low);
}

template <class T>
void put_back(const Projection& p, std::span<const T> basis, std::span<const T> low, std::span<T> whole) {
  if (p.right)
    product_nn(low, basis, p.rows, p.rank, p.columns, whole);
  else
    product_tn(basis, low, p.rows, p.rank, p.columns, whole);
}

// The rule's own step, of a matrix (projected) that is zero before it.
UpdateShard inner_shard(const UpdateShard& s, const Projection& p, const Tensor& gradient, const Tensor& zero) {
  UpdateShard inner = s;
  inner.form = p.form();
  inner.decays = false;
  inner.norm.coefficient = 1;
  inner.gradient = gradient, inner.master = zero, inner.compute = {}, inner.temporary = {};
  inner.slots.erase(inner.slots.begin());
  return inner;
}

template <class T>
void matrix_step(const UpdateShard& s, UpdateRule rule, bool adds_decay) {
  const Projection p = projection_of(s.config, s.form);
  const std::span<T> g = s.gradient.span<T>(), w = s.master.span<T>(), basis = s.slots[0].span<T>(),
                     temporary = s.temporary.span<T>();
  TERN_CHECK(std::ssize(basis) == p.rank * p.side, "galore: a basis of {} elements for {} of {}", basis.size(), p.rank,
             p.side);
  const auto scale = static_cast<T>(s.norm.coefficient), pull = static_cast<T>(adds_decay ? s.decay() : 0);
  for_each_element(g.size(), [=](size_t i) { g[i] = scale * g[i] + pull * w[i]; });
  if ((s.step - 1) % static_cast<int64_t>(s.config.option("basis-every")) == 0) new_basis<T>(p, g, basis, temporary);
  const int64_t low = p.form().elements();
  const Tensor flat = s.temporary.reshaped({s.temporary.count()}), projected = flat.rows_view(0, low),
               moved = flat.rows_view(low, 2 * low);
  project<T>(p, basis, g, projected.span<T>(), temporary.subspan(static_cast<size_t>(2 * low)));
  moved.fill_zero();
  functions_of(rule).step(inner_shard(s, p, projected, moved));
  put_back<T>(p, basis, moved.span<T>(), g);
  const double decay = adds_decay ? 0 : s.learning_rate * s.decay();
  move_weights(decay, -s.config.option("projection-scale") * (1 - decay), g, s);
  s.gradient.fill_zero();
}

}  // namespace

void galore_step(const UpdateShard& s, UpdateRule inner, bool adds_decay) {
  if (s.form.kind == ParameterKind::matrix) {
    if (s.master.dtype() == DType::f64) return matrix_step<double>(s, inner, adds_decay);
    return matrix_step<float>(s, inner, adds_decay);
  }
  UpdateShard plain = s;
  plain.slots.erase(plain.slots.begin());
  functions_of(inner).step(plain);
}

ThreadBytes galore_thread_bytes(const UpdateConfig& c, const ParameterForm& f) {
  if (f.kind != ParameterKind::matrix) return {};
  const Projection p = projection_of(c, f);
  const ThreadBytes square = product_tn_thread_bytes(p.side, std::max(p.rows, p.columns), p.side);
  if (p.right)
    return most(square, most(product_nn_thread_bytes(p.rows, p.columns, p.rank),
                             product_nn_thread_bytes(p.rows, p.rank, p.columns)));
  return most(square, most(product_nn_thread_bytes(p.rank, p.rows, p.columns),
                           product_tn_thread_bytes(p.rows, p.rank, p.columns)));
}

}  // namespace tern
