#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/rounding.h"
#include "kernels/cpu/matmul_table.h"
#include "kernels/cpu/product_columns.h"
#include "kernels/cpu/tile_matmul.h"
#include "kernels/cpu/widened_rows.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

const MatmulTable& table() {
  const Isa isa = active_isa();
  return TERN_TABLE_OF(matmul_table, isa);
}

const TileMatmulTable& tiles() { return tile_matmul_of(active_isa()); }

template <class T>
constexpr int64_t kStep = 4 / static_cast<int64_t>(sizeof(T));  // f32 singly, bf16 in pairs

/// Shapes are model/'s business; a product of the wrong size would write past an end, so it is worth three compares.
void check(const char* what, size_t have, int64_t a, int64_t b) {
  TERN_CHECK(a >= 0 && b >= 0 && have == static_cast<size_t>(a * b), "{}: {} elements for {} × {}", what, have, a, b);
}

template <class T>
int64_t count_rows(std::span<const WeightRows<T>> w) {
  int64_t rows = 0;
  for (const WeightRows<T>& piece : w) rows += piece.count;
  return rows;
}

template <class T>
const T* as(std::span<const std::byte> packed) {
  return reinterpret_cast<const T*>(packed.data());
}

}  // namespace

int64_t packed_bytes(DType dtype, int64_t n, int64_t k) {
  TERN_CHECK(dtype == DType::f32 || dtype == DType::bf16, "packed_bytes: {}, want f32 or bf16", name_of(dtype));
  if (reads_plain_weights(dtype)) return n * k * size_of(dtype);
  return round_up(n, table().panel) * round_up(k, 4 / size_of(dtype)) * size_of(dtype);
}

template <class T>
void pack_weight(std::span<const T> w, int64_t n, int64_t k, std::span<std::byte> packed) {
  check("pack_weight: w", w.size(), n, k);
  const WeightRows<T> rows{w.data(), n};
  pack_weight<T>(std::span<const WeightRows<T>>(&rows, 1), n, k, packed);
}

template <class T>
void pack_weight(std::span<const WeightRows<T>> w, int64_t n, int64_t k, std::span<std::byte> packed) {
  check("pack_weight: packed", packed.size(), 1, packed_bytes(DTypeOf<T>::value, n, k));
  TERN_CHECK(count_rows(w) == n, "pack_weight: {} rows of w for {}", count_rows(w), n);
  T* out = reinterpret_cast<T*>(packed.data());
  if (reads_plain_weights(DTypeOf<T>::value)) {
    for (const WeightRows<T>& piece : w) out = std::copy_n(piece.rows, piece.count * k, out);
    return;
  }
  const auto pack = [&](const T* rows, int64_t count, int64_t row) {  // rows of whole panels, but the last
    T* const to = out + row * round_up(k, kStep<T>);
    if constexpr (sizeof(T) == 4)
      table().pack_f32(rows, count, k, to);
    else
      table().pack_bf16(rows, count, k, to);
  };
  if (n == 0 || k == 0) return;
  const int64_t panel = table().panel;
  std::vector<T> joined;  // rows of a panel that does not lie in one piece
  int64_t row = 0;        // packed so far
  for (const WeightRows<T>& piece : w) {
    const T* from = piece.rows;
    for (int64_t left = piece.count; left > 0;) {
      const int64_t waiting = static_cast<int64_t>(joined.size()) / k, end = row + waiting + left;
      int64_t taken = end == n ? left : left / panel * panel;
      if (waiting == 0 && taken > 0) {
        pack(from, taken, row);
        row += taken;
      } else {
        taken = std::min(panel - waiting, left);
        joined.insert(joined.end(), from, from + taken * k);
        if (const int64_t count = waiting + taken; count == panel || row + count == n) {
          pack(joined.data(), count, row);
          row += count;
          joined.clear();
        }
      }
      from += taken * k;
      left -= taken;
    }
  }
}

template <class T>
void unpack_row(std::span<const std::byte> packed, int64_t n, int64_t k, int64_t row, std::span<T> out) {
  check("unpack_row: packed", packed.size(), 1, packed_bytes(DTypeOf<T>::value, n, k));
  check("unpack_row: out", out.size(), 1, k);
  TERN_CHECK(row >= 0 && row < n, "unpack_row: row {} of {}", row, n);
  if (reads_plain_weights(DTypeOf<T>::value)) {
    std::copy_n(as<T>(packed) + row * k, k, out.begin());
    return;
  }
  const int64_t panel = table().panel;
  const T* from = as<T>(packed) + row / panel * panel * round_up(k, kStep<T>);
  for (int64_t i = 0; i < k; ++i) out[i] = from[(i / kStep<T> * panel + row % panel) * kStep<T> + i % kStep<T>];
}

template <class T, class Out>
void multiply_exact(std::span<const T> x, std::span<const std::byte> packed, std::span<const T> bias, int64_t m,
                    int64_t n, int64_t k, bool add, std::span<Out> y, int64_t y_stride) {
  check("multiply_exact: x", x.size(), m, k);
  check("multiply_exact: packed", packed.size(), 1, packed_bytes(DTypeOf<T>::value, n, k));
  const int64_t stride = checked_stride("multiply_exact: y", y.size(), m, n, y_stride);
  if (!bias.empty()) check("multiply_exact: bias", bias.size(), 1, n);
  const T* b = bias.empty() ? nullptr : bias.data();
  if constexpr (sizeof(T) == 4) {
    table().exact_f32(x.data(), as<T>(packed), b, m, n, k, add, y.data(), stride, nullptr);
  } else if (reads_plain_weights(DType::bf16)) {
    const WeightRows<T> rows{as<T>(packed), n};
    tile_forward<Out>(tiles(), x.data(), {&rows, 1}, b, m, n, k, add, y.data(), stride);
  } else {
    for_widened_rows(m, k, [&](int64_t row, int64_t rows, float* room) {
      const T* const from = x.data() + row * k;
      Out* const to = y.data() + row * stride;
      if constexpr (sizeof(Out) == 4)
        table().exact_bf16_to_f32(from, as<T>(packed), b, rows, n, k, add, to, stride, room);
      else
        table().exact_bf16(from, as<T>(packed), b, rows, n, k, add, to, stride, room);
    });
  }
}

bool reads_plain_weights(DType dtype) { return dtype == DType::bf16 && has_tiles(active_isa()); }

int64_t widened_bytes(int64_t m, int64_t k) {
  return table().widens_bf16 && m >= kWidenFrom ? std::min(m, wide_rows(k)) * wide_stride(k) * 4 : 0;
}

ThreadBytes forward_thread_bytes(DType dtype, int64_t m, int64_t n, int64_t k) {
  if (reads_plain_weights(dtype)) return tile_forward_scratch(m, n, k);
  return {.caller = dtype == DType::bf16 ? widened_bytes(m, k) : 0};
}
ThreadBytes nt_thread_bytes(DType dtype, int64_t m, int64_t n, int64_t k) {
  return reads_plain_weights(dtype) ? tile_forward_scratch(m, n, k) : ThreadBytes{};
}
ThreadBytes nn_thread_bytes(DType dtype, int64_t m, int64_t n, int64_t k) {
  return reads_plain_weights(dtype) ? tile_nn_scratch(m, n, k) : ThreadBytes{};
}
ThreadBytes tn_thread_bytes(DType dtype, int64_t m, int64_t n, int64_t k) {
  return reads_plain_weights(dtype) ? tile_tn_scratch(m, n, k) : ThreadBytes{};
}

template <class T, class Out>
void multiply_plain(std::span<const T> x, std::span<const WeightRows<T>> w, std::span<const T> bias, int64_t m,
                    int64_t n, int64_t k, bool add, std::span<Out> y, int64_t y_stride) {
  TERN_CHECK(reads_plain_weights(DTypeOf<T>::value), "multiply_plain: {} on {}", name_of(DTypeOf<T>::value),
             name_of(active_isa()));
  TERN_CHECK(count_rows(w) == n, "multiply_plain: {} rows of w for {}", count_rows(w), n);
  check("multiply_plain: x", x.size(), m, k);
  const int64_t stride = checked_stride("multiply_plain: y", y.size(), m, n, y_stride);
  if (!bias.empty()) check("multiply_plain: bias", bias.size(), 1, n);
  if constexpr (sizeof(T) == 2)
    tile_forward<Out>(tiles(), x.data(), w, bias.empty() ? nullptr : bias.data(), m, n, k, add, y.data(), stride);
}

template <class T, class Out>
void multiply_nt(std::span<const T> x, std::span<const T> w, std::span<const T> bias, int64_t m, int64_t n, int64_t k,
                 bool add, std::span<Out> y) {
  check("multiply_nt: x", x.size(), m, k);
  check("multiply_nt: w", w.size(), n, k);
  check("multiply_nt: y", y.size(), m, n);
  if (!bias.empty()) check("multiply_nt: bias", bias.size(), 1, n);
  const T* b = bias.empty() ? nullptr : bias.data();
  if constexpr (sizeof(T) == 4) {
    table().nt_f32(x.data(), w.data(), b, m, n, k, add, y.data());
  } else if (has_tiles(active_isa())) {
    const WeightRows<T> rows{w.data(), n};
    tile_forward<Out>(tiles(), x.data(), {&rows, 1}, b, m, n, k, add, y.data(), n);
  } else if constexpr (sizeof(Out) == 4) {
    table().nt_bf16_to_f32(x.data(), w.data(), b, m, n, k, add, y.data());
  } else {
    table().nt_bf16(x.data(), w.data(), b, m, n, k, add, y.data());
  }
}

template <class T>
void multiply_nn(std::span<const T> dy, std::span<const T> w, int64_t m, int64_t n, int64_t k, bool add,
                 std::span<T> dx) {
  check("multiply_nn: dy", dy.size(), m, n);
  check("multiply_nn: w", w.size(), n, k);
  check("multiply_nn: dx", dx.size(), m, k);
  if constexpr (sizeof(T) == 4)
    table().nn_f32(dy.data(), w.data(), m, n, k, add, dx.data());
  else if (has_tiles(active_isa()))
    tile_nn(tiles(), dy.data(), w.data(), m, n, k, add, dx.data());
  else
    table().nn_bf16(dy.data(), w.data(), m, n, k, add, dx.data());
}

template <class T>
void multiply_tn(std::span<const T> dy, std::span<const T> x, int64_t m, int64_t n, int64_t k, std::span<float> dw) {
  check("multiply_tn: dy", dy.size(), m, n);
  check("multiply_tn: x", x.size(), m, k);
  check("multiply_tn: dw", dw.size(), n, k);
  if constexpr (sizeof(T) == 4)
    table().tn_f32(dy.data(), x.data(), m, n, k, dw.data());
  else if (has_tiles(active_isa()))
    tile_tn(tiles(), dy.data(), x.data(), m, n, k, dw.data());
  else
    table().tn_bf16(dy.data(), x.data(), m, n, k, dw.data());
}

#define TERN_INSTANTIATE(T)                                                                                            \
  template void pack_weight<T>(std::span<const T>, int64_t, int64_t, std::span<std::byte>);                            \
  template void pack_weight<T>(std::span<const WeightRows<T>>, int64_t, int64_t, std::span<std::byte>);                \
  template void unpack_row<T>(std::span<const std::byte>, int64_t, int64_t, int64_t, std::span<T>);                    \
  template void multiply_nn<T>(std::span<const T>, std::span<const T>, int64_t, int64_t, int64_t, bool, std::span<T>); \
  template void multiply_tn<T>(std::span<const T>, std::span<const T>, int64_t, int64_t, int64_t, std::span<float>);   \
  template void multiply_exact<T, float>(std::span<const T>, std::span<const std::byte>, std::span<const T>, int64_t,  \
                                         int64_t, int64_t, bool, std::span<float>, int64_t);                           \
  template void multiply_nt<T, float>(std::span<const T>, std::span<const T>, std::span<const T>, int64_t, int64_t,    \
                                      int64_t, bool, std::span<float>);                                                \
  template void multiply_plain<T, float>(std::span<const T>, std::span<const WeightRows<T>>, std::span<const T>,       \
                                         int64_t, int64_t, int64_t, bool, std::span<float>, int64_t);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(bf16)
template void multiply_exact<bf16, bf16>(std::span<const bf16>, std::span<const std::byte>, std::span<const bf16>,
                                         int64_t, int64_t, int64_t, bool, std::span<bf16>, int64_t);
template void multiply_nt<bf16, bf16>(std::span<const bf16>, std::span<const bf16>, std::span<const bf16>, int64_t,
                                      int64_t, int64_t, bool, std::span<bf16>);
template void multiply_plain<bf16, bf16>(std::span<const bf16>, std::span<const WeightRows<bf16>>,
                                         std::span<const bf16>, int64_t, int64_t, int64_t, bool, std::span<bf16>,
                                         int64_t);

}  // namespace tern
