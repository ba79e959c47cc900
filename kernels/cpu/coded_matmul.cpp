#include "kernels/cpu/coded_matmul.h"

#include "base/error.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_table.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/product_columns.h"
#include "kernels/cpu/widened_rows.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

const MatmulTable& table() {
  const Isa isa = active_isa();
  return TERN_TABLE_OF(matmul_table, isa);
}

void check(const char* what, size_t have, int64_t a, int64_t b) {
  TERN_CHECK(a >= 0 && b >= 0 && have == static_cast<size_t>(a * b), "{}: {} elements for {} × {}", what, have, a, b);
}

void check(const CodedRows& rows, int64_t k) {
  TERN_CHECK(fills_blocks(rows.type, k) && rows.count >= 0, "coded rows: {} of {} elements of {}", rows.count, k,
             name_of(rows.type));
  TERN_CHECK((rows.tables != nullptr) == (table_bytes(rows.type) > 0), "coded rows: tables of {}", name_of(rows.type));
  TERN_CHECK(rows.head_dim == 0 || (rows.head_dim % 2 == 0 && rows.count % rows.head_dim == 0),
             "coded rows: {} rows of heads of {}", rows.count, rows.head_dim);
}

void check(const char* what, DType dtype, std::span<const CodedRows> w, int64_t n, int64_t k) {
  TERN_CHECK(multiplies_coded(dtype), "{}: {} on {}", what, name_of(dtype), name_of(active_isa()));
  int64_t rows = 0;
  for (const CodedRows& piece : w) check(piece, k), rows += piece.count;
  TERN_CHECK(rows == n, "{}: {} rows of w for {}", what, rows, n);
}

}  // namespace

bool multiplies_coded(DType dtype) {
  return dtype == DType::f32 || (dtype == DType::bf16 && !reads_plain_weights(dtype));
}

template <class T, class Out>
void multiply_coded(std::span<const T> x, std::span<const CodedRows> w, std::span<const T> bias, int64_t m, int64_t n,
                    int64_t k, bool add, std::span<Out> y, int64_t y_stride) {
  check("multiply_coded", DTypeOf<T>::value, w, n, k);
  check("multiply_coded: x", x.size(), m, k);
  const int64_t stride = checked_stride("multiply_coded: y", y.size(), m, n, y_stride);
  if (!bias.empty()) check("multiply_coded: bias", bias.size(), 1, n);
  const T* b = bias.empty() ? nullptr : bias.data();
  if constexpr (sizeof(T) == 4) {
    table().coded_f32(x.data(), w.data(), b, m, n, k, add, y.data(), stride, nullptr);
  } else {
    for_widened_rows(m, k, [&](int64_t row, int64_t rows, float* room) {
      const T* const from = x.data() + row * k;
      Out* const to = y.data() + row * stride;
      if constexpr (sizeof(Out) == 4)
        table().coded_bf16_to_f32(from, w.data(), b, rows, n, k, add, to, stride, room);
      else
        table().coded_bf16(from, w.data(), b, rows, n, k, add, to, stride, room);
    });
  }
}

template <class T>
void multiply_coded_nn(std::span<const T> dy, std::span<const CodedRows> w, int64_t m, int64_t n, int64_t k, bool add,
                       std::span<T> dx) {
  check("multiply_coded_nn", DTypeOf<T>::value, w, n, k);
  check("multiply_coded_nn: dy", dy.size(), m, n);
  check("multiply_coded_nn: dx", dx.size(), m, k);
  if constexpr (sizeof(T) == 4)
    table().coded_nn_f32(dy.data(), w.data(), m, n, k, add, dx.data());
  else
    table().coded_nn_bf16(dy.data(), w.data(), m, n, k, add, dx.data());
}

template <class T>
void gather_coded_rows(const CodedRows& from, int64_t k, std::span<const int32_t> ids, std::span<T> y) {
  check(from, k);
  check("gather_coded_rows: y", y.size(), static_cast<int64_t>(ids.size()), k);
  for (const int32_t id : ids)
    TERN_CHECK(0 <= id && id < from.count, "gather_coded_rows: row {} of {}", id, from.count);
  parallel_ranges(static_cast<int64_t>(ids.size()), row_grain(k), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T* out = y.data() + i * k;
      if constexpr (sizeof(T) == 4)
        table().coded_row_f32(from, ids[static_cast<size_t>(i)], k, out);
      else
        table().coded_row_bf16(from, ids[static_cast<size_t>(i)], k, out);
    }
  });
}

#define TERN_INSTANTIATE(T)                                                                                           \
  template void multiply_coded<T, float>(std::span<const T>, std::span<const CodedRows>, std::span<const T>, int64_t, \
                                         int64_t, int64_t, bool, std::span<float>, int64_t);                          \
  template void multiply_coded_nn<T>(std::span<const T>, std::span<const CodedRows>, int64_t, int64_t, int64_t, bool, \
                                     std::span<T>);                                                                   \
  template void gather_coded_rows<T>(const CodedRows&, int64_t, std::span<const int32_t>, std::span<T>);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(bf16)
template void multiply_coded<bf16, bf16>(std::span<const bf16>, std::span<const CodedRows>, std::span<const bf16>,
                                         int64_t, int64_t, int64_t, bool, std::span<bf16>, int64_t);

}  // namespace tern
