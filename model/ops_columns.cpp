// The operations of ops.h that take some columns of a tensor, or groups of neighbouring ones; and numbers that are left out by chance.

#include <algorithm>
#include <string>
#include <type_traits>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector.h"
#include "kernels/ref/vector_ref.h"
#include "model/number.h"
#include "model/ops.h"

namespace tern::ops {

// Calls f(row of the wide tensor at the column, row of the narrow one, n) for every row: n elements of the narrow one, `repeat` times
// as many of the wide one.
template <class T, class F>
static void for_columns(const Tensor& wide, int64_t column, const Tensor& narrow, F&& f, int64_t repeat = 1) {
  const int64_t rows = narrow.rows(), n = rows ? narrow.count() / rows : 0, stride = rows ? wide.count() / rows : 0;
  TERN_CHECK(column + n * repeat <= stride, "columns {} to {} of {}", column, column + n * repeat, stride);
  T* const of_wide = wide.span<T>().data() + column;
  T* const of_narrow = narrow.span<T>().data();
  parallel_ranges(rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(n, 1)), 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) f(of_wide + r * stride, of_narrow + r * n, n);
  });
}

void copy_columns(const Tensor& x, int64_t column, const Tensor& y) {
  by_dtype(x.dtype(), [&]<class T>() {
    for_columns<T>(x, column, y, [](const T* from, T* to, int64_t n) { std::copy_n(from, n, to); });
  });
}

void add_columns(double factor, const Tensor& x, const Tensor& y, int64_t column) {
  if (x.count() == 0) return;
  TERN_CHECK(y.rows() == x.rows(), "columns of {} rows, given {}", y.rows(), x.rows());
  const int64_t width = x.count() / x.rows(), stride = y.count() / y.rows();
  TERN_CHECK(column >= 0 && column + width <= stride, "columns {} to {} of {}", column, column + width, stride);
  by_dtype(x.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, double>)
      add_scaled_columns_ref(factor, x.span<T>(), width, y.span<T>(), stride, column);
    else
      add_scaled_columns<T>(static_cast<float>(factor), x.span<T>(), width, y.span<T>(), stride, column);
  });
}

namespace {

template <class T>
auto wide(T x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_float(x);
  else
    return x;
}
template <class T, class Wide>
T narrow(Wide x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(x);
  else
    return x;
}

}  // namespace

void add_repeated_columns(double factor, const Tensor& x, int64_t repeat, const Tensor& y, int64_t column) {
  by_dtype(x.dtype(), [&]<class T>() {
    const auto add = [&](T* to, const T* from, int64_t n) {
      for (int64_t j = 0; j < n; ++j) {
        const auto more = static_cast<decltype(wide(from[j]))>(factor) * wide(from[j]);
        for (int64_t i = j * repeat; i < (j + 1) * repeat; ++i) to[i] = narrow<T>(wide(to[i]) + more);
      }
    };
    for_columns<T>(y, column, x, add, repeat);
  });
}

void sum_columns(const Tensor& x, int64_t column, int64_t repeat, const Tensor& y) {
  by_dtype(x.dtype(), [&]<class T>() {
    const auto sum = [&](const T* from, T* to, int64_t n) {
      for (int64_t j = 0; j < n; ++j) {
        auto total = wide(from[j * repeat]);
        for (int64_t i = 1; i < repeat; ++i) total += wide(from[j * repeat + i]);
        to[j] = narrow<T>(total);
      }
    };
    for_columns<T>(x, column, y, sum, repeat);
  });
}

void pool_columns(const Tensor& x, int64_t pool, const Tensor& y) {
  TERN_CHECK(x.count() == y.count() * pool, "pool_columns: {} numbers, {} groups of {}", x.count(), y.count(), pool);
  by_dtype(x.dtype(), [&]<class T>() {
    const T* from = x.span<T>().data();
    T* to = y.span<T>().data();
    parallel_ranges(y.count(), row_grain(pool), 1, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) {
        auto sum = wide(from[g * pool]);
        for (int64_t i = 1; i < pool; ++i) sum += wide(from[g * pool + i]);
        to[g] = narrow<T>(sum / static_cast<decltype(sum)>(pool));
      }
    });
  });
}

void scale_columns(const Tensor& factors, const Tensor& bias, const Tensor& y, int64_t column) {
  const std::span<const double> f = factors.span<double>();
  const auto n = static_cast<int64_t>(f.size());
  by_dtype(y.dtype(), [&]<class T>() {
    const std::span<const T> b = span_or_none<T>(bias);
    TERN_CHECK(b.empty() || b.size() == f.size(), "scale_columns: {} factors, a bias of {}", f.size(), b.size());
    const int64_t stride = y.count() / y.rows();
    TERN_CHECK(column + n <= stride, "columns {} to {} of {}", column, column + n, stride);
    T* const to = y.span<T>().data() + column;
    parallel_ranges(y.rows(), row_grain(n), 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        for (int64_t i = 0; i < n; ++i) {
          if (f[static_cast<size_t>(i)] == 1) continue;  // also where y - bias is not exact
          T& x = to[r * stride + i];
          const double at = b.empty() ? 0 : static_cast<double>(wide(b[static_cast<size_t>(i)]));
          x = number_as<T>(at + f[static_cast<size_t>(i)] * (static_cast<double>(wide(x)) - at));
        }
    });
  });
}

// Four numbers of a block of random ones: as many neighbours are left out by one of them.
void drop(double share, RngKey key, int64_t step, int64_t first_row, const Tensor& x) {
  const int64_t n = x.count() / x.rows();
  const auto least = static_cast<uint32_t>(std::min(share * 0x1p32, 0x1p32 - 1));
  const double rest = 1 / (1 - share);
  const uint64_t stream = hash_name(std::to_string(step), key.stream);
  const auto low = [](uint64_t v) { return static_cast<uint32_t>(v); };
  const auto high = [](uint64_t v) { return static_cast<uint32_t>(v >> 32); };
  by_dtype(x.dtype(), [&]<class T>() {
    T* const to = x.span<T>().data();
    parallel_ranges(x.rows(), row_grain(n), 1, [&](int64_t begin, int64_t end) {
      Philox4 random{};
      uint64_t block = ~uint64_t{0};
      for (int64_t i = begin * n; i < end * n; ++i) {
        const uint64_t place = static_cast<uint64_t>(first_row * n + i);
        if (place / 4 != block) {
          block = place / 4;
          random = philox({low(block), high(block), low(stream), high(stream)}, {low(key.seed), high(key.seed)});
        }
        to[i] = random[place % 4] < least ? T{} : number_as<T>(rest * static_cast<double>(wide(to[i])));
      }
    });
  });
}

void add_pooled_gradient(const Tensor& y, int64_t pool, const Tensor& x) {
  TERN_CHECK(x.count() == y.count() * pool, "add_pooled_gradient: {} numbers, {} groups of {}", x.count(), y.count(),
             pool);
  by_dtype(x.dtype(), [&]<class T>() {
    const T* from = y.span<T>().data();
    T* to = x.span<T>().data();
    parallel_ranges(y.count(), row_grain(pool), 1, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) {
        const auto share = wide(from[g]) / static_cast<decltype(wide(from[g]))>(pool);
        for (int64_t i = 0; i < pool; ++i) to[g * pool + i] = narrow<T>(wide(to[g * pool + i]) + share);
      }
    });
  });
}

}  // namespace tern::ops
