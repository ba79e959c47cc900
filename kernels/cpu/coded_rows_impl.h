#pragma once
// Where the rows of coded pieces lie. Only for *_isa.cpp files.

#include "kernels/cpu/coded_rows.h"
#include "kernels/cpu/decode_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

/// A row of a piece: its first block, its decoder, and what learned codes need.
struct CodedRow {
  const uint8_t* at;
  const BlockDecoder* decoder;
  RowCodebook codebook;
};
/// The file's index of row `row`: the file may interleave the halves of heads (CodedRows::head_dim).
inline int64_t place_of_row(const CodedRows& piece, int64_t row) {
  if (piece.head_dim == 0) return row;
  const int64_t half = piece.head_dim / 2, in_head = row % piece.head_dim;
  return row + in_head % half * 2 + in_head / half - in_head;
}
/// The row's first block, behind the row's header.
inline const uint8_t* blocks_of_row(const CodedRows& piece, int64_t row, int64_t k) {
  const BlockDecoder& type = decode_table.of[static_cast<int>(piece.type)];
  const int64_t row_bytes = type.row_header_bytes + k / type.block_elements * type.block_bytes;
  return piece.bytes + place_of_row(piece, row) * row_bytes + type.row_header_bytes;
}
inline CodedRow coded_row(const CodedRows& piece, int64_t row, int64_t k) {
  const BlockDecoder& type = decode_table.of[static_cast<int>(piece.type)];
  const uint8_t* blocks = blocks_of_row(piece, row, k);
  if (type.decode) return {blocks, &type, {}};
  return {blocks, &type, {piece.tables, to_float(number_at<bf16>(blocks - type.row_header_bytes))}};
}

/// Prefetches the bytes of elements [begin, begin + count). A panel reads up to 64 rows at a time, more streams than the processor's own
/// prefetching follows.
inline void fetch(const CodedRow& row, int64_t begin, int64_t count) {
  const BlockDecoder& type = *row.decoder;
  const uint8_t* at = row.at + begin / type.block_elements * type.block_bytes;
  for (const uint8_t* end = at + count / type.block_elements * type.block_bytes; at < end; at += 64)
    __builtin_prefetch(at, 0, 2);
}

/// rows[r] = row first + r of all pieces, counted from the first row of `piece`, for r < count.
inline void rows_of_panel(const CodedRows* piece, int64_t first, int64_t count, int64_t k, CodedRow* rows) {
  for (; first >= piece->count; ++piece) first -= piece->count;
  for (int64_t r = 0; r < count; ++r, ++first) {
    for (; first >= piece->count; ++piece) first -= piece->count;
    rows[r] = coded_row(*piece, first, k);
  }
}

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
