#include "kernels/cpu/vector.h"

#include <atomic>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector_table.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

const VectorTable& table_in_use() { return TERN_TABLE_OF(vector_table, active_isa()); }
template <class T>
const VectorKernels<T>& active() {
  if constexpr (std::is_same_v<T, float>)
    return table_in_use().f32;
  else
    return table_in_use().bfloat16;
}

template <class From, class To>
auto converter(const VectorTable& table) {
  if constexpr (std::is_same_v<From, bf16>)
    return table.bf16_to_f32;
  else if constexpr (std::is_same_v<To, bf16>)
    return table.f32_to_bf16;
  else if constexpr (std::is_same_v<From, f16>)
    return table.f16_to_f32;
  else if constexpr (std::is_same_v<To, f16>)
    return table.f32_to_f16;
  else if constexpr (std::is_same_v<From, double>)
    return table.f64_to_f32;
  else
    return table.f32_to_f64;
}

template <class T>
int64_t size_of_span(std::span<T> s) {
  return static_cast<int64_t>(s.size());
}

void check_rows(const char* kernel, size_t elements, size_t width) {
  TERN_CHECK(width > 0 && elements % width == 0, "{}: {} elements in rows of {}", kernel, elements, width);
}
void check_gather(const char* kernel, size_t elements, int64_t width, size_t rows, size_t table) {
  TERN_CHECK(width > 0 && elements == rows * static_cast<size_t>(width) && table % static_cast<size_t>(width) == 0,
             "{}: {} elements for {} rows of {}, from a table of {}", kernel, elements, rows, width, table);
}

constexpr int64_t kUnit = 64;                    // ranges of whole cache lines
constexpr int64_t kSumBlock = int64_t{1} << 16;  // elements; belongs to the bits of sum_of_squares

}  // namespace

template <class From, class To>
void convert(std::span<const From> x, std::span<To> y) {
  TERN_CHECK(x.size() == y.size(), "convert: {} elements to {}", x.size(), y.size());
  const auto kernel = converter<From, To>(table_in_use());
  parallel_ranges(size_of_span(x), kParallelGrain, kUnit,
                  [&](int64_t begin, int64_t end) { kernel(end - begin, x.data() + begin, y.data() + begin); });
}

template <class T>
void add(std::span<const T> x, std::span<T> y) {
  TERN_CHECK(x.size() == y.size(), "add: {} elements to {}", x.size(), y.size());
  const auto kernel = active<T>().add;
  parallel_ranges(size_of_span(x), kParallelGrain, kUnit,
                  [&](int64_t begin, int64_t end) { kernel(end - begin, x.data() + begin, y.data() + begin); });
}

void add_and_clear(std::span<float> x, std::span<float> y) {
  TERN_CHECK(x.size() == y.size(), "add_and_clear: {} elements to {}", x.size(), y.size());
  constexpr int64_t kPiece = 2048;  // stays in the first cache between the sum and the zeros
  const auto kernel = active<float>().add;
  parallel_ranges(size_of_span(x), kParallelGrain, kUnit, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t count = std::min(kPiece, end - at);
      kernel(count, x.data() + at, y.data() + at);
      std::fill_n(x.data() + at, count, 0.0f);
    }
  });
}

template <class T>
void add_bias(std::span<const T> bias, std::span<T> y) {
  check_rows("add_bias", y.size(), bias.size());
  const int64_t width = size_of_span(bias);
  const auto kernel = active<T>().add_bias;
  parallel_ranges(size_of_span(y) / width, row_grain(width), 1, [&](int64_t begin, int64_t end) {
    kernel(end - begin, width, bias.data(), y.data() + begin * width);
  });
}

template <class T>
void add_scaled_columns(float factor, std::span<const T> x, int64_t width, std::span<T> y, int64_t stride,
                        int64_t column) {
  if (x.empty()) return;
  check_rows("add_scaled_columns", x.size(), static_cast<size_t>(width));
  const int64_t rows = size_of_span(x) / width;
  TERN_CHECK(size_of_span(y) == rows * stride && column >= 0 && column + width <= stride,
             "add_scaled_columns: columns {} to {} of {}, {} elements for {} rows", column, column + width, stride,
             y.size(), rows);
  const auto kernel = active<T>().add_scaled;
  parallel_ranges(rows, row_grain(width), 1, [&](int64_t begin, int64_t end) {
    kernel(end - begin, width, factor, x.data() + begin * width, y.data() + begin * stride + column, stride);
  });
}

template <class T>
void bias_backward(std::span<const T> dy, std::span<float> db) {
  check_rows("bias_backward", dy.size(), db.size());
  const int64_t width = size_of_span(db), rows = size_of_span(dy) / width;
  const auto kernel = active<T>().bias_backward;
  parallel_ranges(width, row_grain(rows), kUnit,
                  [&](int64_t begin, int64_t end) { kernel(rows, width, begin, end, dy.data(), db.data()); });
}

template <class T>
void gather_rows(std::span<const T> table, int64_t width, std::span<const int32_t> ids, std::span<T> y) {
  check_gather("gather_rows", y.size(), width, ids.size(), table.size());
  parallel_ranges(size_of_span(ids), row_grain(width), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      std::memcpy(y.data() + row * width, table.data() + ids[static_cast<size_t>(row)] * width,
                  static_cast<size_t>(width) * sizeof(T));
  });
}

template <class T>
void gather_rows_add(std::span<const T> table, int64_t width, std::span<const int32_t> ids, std::span<T> y) {
  check_gather("gather_rows_add", y.size(), width, ids.size(), table.size());
  const auto kernel = active<T>().gather_rows_add;
  parallel_ranges(size_of_span(ids), row_grain(width), 1, [&](int64_t begin, int64_t end) {
    kernel(end - begin, width, table.data(), ids.data() + begin, y.data() + begin * width);
  });
}

// Threads share columns, so that equal ids never meet in two threads and rows stay in order.
template <class T>
void scatter_rows_add(std::span<const T> dy, int64_t width, std::span<const int32_t> ids, std::span<float> dtable) {
  check_gather("scatter_rows_add", dy.size(), width, ids.size(), dtable.size());
  const int64_t rows = size_of_span(ids);
  const auto kernel = active<T>().scatter_rows_add;
  parallel_ranges(width, row_grain(rows), kUnit, [&](int64_t begin, int64_t end) {
    kernel(rows, width, begin, end, dy.data(), ids.data(), dtable.data());
  });
}

double sum_of_squares(std::span<const float> x) {
  const int64_t count = size_of_span(x), blocks = (count + kSumBlock - 1) / kSumBlock;
  const auto kernel = table_in_use().sum_of_squares;
  std::vector<double> partial(static_cast<size_t>(blocks));
  parallel_ranges(blocks, 1, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      partial[static_cast<size_t>(b)] = kernel(std::min(kSumBlock, count - b * kSumBlock), x.data() + b * kSumBlock);
  });
  double sum = 0;
  for (const double p : partial) sum += p;
  return sum;
}

bool all_finite(std::span<const float> x) {
  const auto kernel = table_in_use().all_finite;
  std::atomic<bool> finite = true;
  parallel_ranges(size_of_span(x), kParallelGrain, kUnit, [&](int64_t begin, int64_t end) {
    if (!kernel(end - begin, x.data() + begin)) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load();
}

#define TERN_INSTANTIATE(T)                                                                                \
  template void add<T>(std::span<const T>, std::span<T>);                                                  \
  template void add_bias<T>(std::span<const T>, std::span<T>);                                             \
  template void add_scaled_columns<T>(float, std::span<const T>, int64_t, std::span<T>, int64_t, int64_t); \
  template void bias_backward<T>(std::span<const T>, std::span<float>);                                    \
  template void gather_rows<T>(std::span<const T>, int64_t, std::span<const int32_t>, std::span<T>);       \
  template void gather_rows_add<T>(std::span<const T>, int64_t, std::span<const int32_t>, std::span<T>);   \
  template void scatter_rows_add<T>(std::span<const T>, int64_t, std::span<const int32_t>, std::span<float>);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(bf16)

template void convert(std::span<const float>, std::span<bf16>);
template void convert(std::span<const bf16>, std::span<float>);
template void convert(std::span<const float>, std::span<f16>);
template void convert(std::span<const f16>, std::span<float>);
template void convert(std::span<const float>, std::span<double>);
template void convert(std::span<const double>, std::span<float>);

}  // namespace tern
