#include "model/elastic.h"

#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/wide_type.h"
#include "kernels/cpu/parallel.h"
#include "model/number.h"
#include "model/ops.h"

namespace tern {
namespace {

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Groups of two widths.
struct Groups {
  int64_t count, from, to;  // neighbours of a group on each side
};
Groups groups_of(int64_t from, int64_t to) {
  const int64_t count = std::gcd(from, to);
  return {count, from / count, to / count};
}

// Σ of the group's numbers.
template <class W, class T>
W sum_of(const T* from, int64_t n) {
  auto sum = number_as<W>(from[0]);
  for (int64_t i = 1; i < n; ++i) sum += number_as<W>(from[i]);
  return sum;
}

// Each number of a group of y += factor·Σ of the group of x.
void add_group_sums(double factor, const Tensor& x, const Tensor& y) {
  TERN_CHECK(x.rows() == y.rows() && x.dtype() == y.dtype(), "elastic: {} rows beside {}", x.rows(), y.rows());
  const int64_t k = x.shape()[1], n = y.shape()[1];
  const Groups g = groups_of(k, n);
  ops::by_dtype(x.dtype(), [&]<class T>() {
    const T* const from = x.span<T>().data();
    T* const to = y.span<T>().data();
    const auto f = static_cast<Wide<T>>(factor);
    parallel_ranges(x.rows(), row_grain(k + n), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * g.count; i < end * g.count; ++i) {
        const Wide<T> more = f * sum_of<Wide<T>>(from + i * g.from, g.from);
        for (int64_t j = i * g.to; j < (i + 1) * g.to; ++j) to[j] = number_as<T>(number_as<Wide<T>>(to[j]) + more);
      }
    });
  });
}

}  // namespace

void add_elastic(double factor, const Tensor& x, const Tensor& y) {
  add_group_sums(factor / static_cast<double>(groups_of(x.shape()[1], y.shape()[1]).from), x, y);
}

void add_elastic_gradient(double factor, const Tensor& dy, const Tensor& dx) {
  add_group_sums(factor / static_cast<double>(groups_of(dx.shape()[1], dy.shape()[1]).from), dy, dx);
}

double elastic_product(const Tensor& dy, const Tensor& x) {
  TERN_CHECK(x.rows() == dy.rows() && x.dtype() == dy.dtype(), "elastic: {} rows beside {}", x.rows(), dy.rows());
  const Groups g = groups_of(x.shape()[1], dy.shape()[1]);
  std::vector<double> of_rows(static_cast<size_t>(x.rows()));
  ops::by_dtype(x.dtype(), [&]<class T>() {
    const T *const from = x.span<T>().data(), *const to = dy.span<T>().data();
    parallel_ranges(x.rows(), row_grain(x.shape()[1] + dy.shape()[1]), 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        double sum = 0;
        for (int64_t i = r * g.count; i < (r + 1) * g.count; ++i)
          sum += sum_of<double>(from + i * g.from, g.from) * sum_of<double>(to + i * g.to, g.to);
        of_rows[static_cast<size_t>(r)] = sum;
      }
    });
  });
  double sum = 0;
  for (const double row : of_rows) sum += row;
  return sum / static_cast<double>(g.from);
}

ElasticShares shares_of(const Branch& b) {
  ElasticShares shares;
  ops::by_dtype(b.elastic.dtype(), [&]<class T>() {
    const std::span<const T> both = b.elastic.span<T>();
    shares = {number_as<double>(both[0]), number_as<double>(both[1])};
  });
  return shares;
}

void add_to_shares(const ElasticShares& more, const Branch& gradient) {
  ops::by_dtype(gradient.elastic.dtype(), [&]<class T>() {
    const std::span<T> both = gradient.elastic.span<T>();
    both[0] = number_as<T>(number_as<double>(both[0]) + more.of_inputs);
    both[1] = number_as<T>(number_as<double>(both[1]) + more.of_hidden);
  });
}

Tensor with_elastic(const Tensor& w, double share, Arena& arena) {
  const int64_t n = w.rows(), k = w.shape()[1];
  const Groups g = groups_of(k, n);
  const double each = share / static_cast<double>(g.from);
  const Tensor whole = arena.allocate(wide_type(w.dtype()), w.shape(), MemoryClass::staging);
  ops::by_dtype(w.dtype(), [&]<class T>() {
    const std::span<const T> from = w.span<T>();
    const std::span<Wide<T>> to = whole.span<Wide<T>>();
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < k; ++j) {
        const auto at = static_cast<size_t>(i * k + j);
        to[at] = static_cast<Wide<T>>(number_as<double>(from[at]) + (i / g.to == j / g.from ? each : 0));
      }
  });
  return whole;
}

}  // namespace tern
