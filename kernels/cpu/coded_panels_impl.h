#pragma once
// Panels of coded weights, decoded block by block for products. Only for *_isa.cpp files.

#include "kernels/cpu/coded_rows_impl.h"
#include "kernels/cpu/matmul_tiles_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

constexpr int64_t kDecoded = 256;  // elements of a row that are decoded at a time: whole blocks of every type

/// Decodes elements [begin, begin + count) of a row and rounds them to T. `out` is f32, or bf16 where products take bf16.
template <class T>
inline void decode(const CodedRow& row, int64_t begin, int64_t count, float* out) {
  const BlockDecoder& type = *row.decoder;
  const uint8_t* at = row.at + begin / type.block_elements * type.block_bytes;
  if (type.decode)
    type.decode(at, count / type.block_elements, out);
  else
    type.decode_learned(at, count / type.block_elements, row.codebook, out);
  if (sizeof(T) == 4) return;
  int64_t i = 0;
  for (; count - i >= kLanes; i += kLanes) store(out + i, widen(narrow(load(out + i))));
  if (i < count) store(out + i, widen(narrow(load(out + i, count - i))), count - i);
}
template <class T>
inline void decode(const CodedRow& row, int64_t begin, int64_t count, bf16* out) {
  alignas(64) float wide[kDecoded];
  decode<float>(row, begin, count, wide);
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = smaller(kLanes, count - i);
    store(out + i, load(wide + i, n), n);
  }
}

/// The rows of one panel, and those of the next panel, which are prefetched meanwhile.
struct CodedPanel {
  CodedRow rows[kPanel], next[kPanel];
  int64_t count, count_next;

  void place(const CodedRows* pieces, int64_t column, int64_t n, int64_t k) {
    count = smaller(kPanel, n - column), count_next = smaller(kPanel, n - column - count);
    rows_of_panel(pieces, column, count, k, rows);
    if (count_next > 0) rows_of_panel(pieces, column + count, count_next, k, next);
  }
  bool all(WeightType type) const {
    for (int64_t r = 0; r < count; ++r)
      if (rows[r].decoder != &decode_table.of[static_cast<int>(type)]) return false;
    return true;
  }
  /// Prefetches what follows the first `elements` elements of row r: the row's next elements, or at its end the first ones of the next panel's row r.
  void fetch_behind(int64_t r, int64_t elements, int64_t k) const {
    if (elements < k)
      fetch(rows[r], elements, smaller(kDecoded, k - elements));
    else if (r < count_next)
      fetch(next[r], 0, smaller(kDecoded, k));
  }
  /// For rows that are not coded: the address of what follows the first `bytes` bytes of row r; if the next panel has no row r, the row's beginning.
  const uint8_t* behind(int64_t r, int64_t bytes, int64_t row_bytes) const {
    return bytes < row_bytes ? rows[r].at + bytes : r < count_next ? next[r].at : rows[r].at;
  }
};

/// Packs elements [k0, k0 + count) of a panel's rows, which hold plain numbers of type From, step-major.
template <class From, class T>
void pack_plain(const CodedPanel& w, int64_t k0, int64_t count, int64_t k, T* panel) {
  constexpr int64_t kSize = sizeof(From);
  for (int64_t c = 0; c < kPanel; c += kLanes) {
    const int64_t lanes = w.count - c < 0 ? 0 : smaller(kLanes, w.count - c);
    const uint8_t *at[kLanes] = {}, *ahead[kLanes] = {};
    for (int64_t i = 0; i < lanes; ++i) {
      at[i] = w.rows[c + i].at + k0 * kSize;
      ahead[i] = w.behind(c + i, (k0 + count) * kSize, k * kSize);
    }
    pack_lanes<From>(at, lanes, count, c, panel, ahead);
  }
}
/// The same for rows of any type, decoded and rounded to T.
template <class T>
void pack_decoded(const CodedPanel& w, int64_t k0, int64_t count, int64_t k, Wide<T>* panel) {
  alignas(64) Wide<T> plain[kLanes * kDecoded];
  for (int64_t c = 0; c < kPanel; c += kLanes) {
    const int64_t lanes = w.count - c < 0 ? 0 : smaller(kLanes, w.count - c);
    const uint8_t* at[kLanes] = {};
    for (int64_t i = 0; i < lanes; ++i) {
      w.fetch_behind(c + i, k0 + count, k);
      decode<T>(w.rows[c + i], k0, count, plain + i * kDecoded);
      at[i] = reinterpret_cast<const uint8_t*>(plain + i * kDecoded);
    }
    pack_lanes<Wide<T>>(at, lanes, count, c, panel);
  }
}

/// Packs elements [k0, k0 + count) of a panel's rows, step-major, rounded to T.
template <class T>
void pack(const CodedPanel& w, int64_t k0, int64_t count, int64_t k, Wide<T>* panel) {
  if (w.all(WeightType::bf16)) return pack_plain<bf16>(w, k0, count, k, panel);
  if constexpr (sizeof(T) == 4)
    if (w.all(WeightType::f32)) return pack_plain<float>(w, k0, count, k, panel);
  pack_decoded<T>(w, k0, count, k, panel);
}

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
