#include "model/ring_attention.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/wide_type.h"
#include "comm/ring_messages.h"
#include "kernels/cpu/attention_onto.h"
#include "kernels/cpu/parallel.h"
#include "kernels/ref/attention_onto_ref.h"
#include "model/number.h"
#include "model/ops.h"
#include "model/ring_rows.h"

namespace tern {
namespace {

// One rank's view of a pass: hop h brings the block of rank (rank − h) mod ranks.
struct Ring {
  const AttentionShape& shape;
  const Rows& rows;
  const Compute& c;
  int rank = c.context->comm.rank(), ranks = c.context->comm.size();
  int64_t T = std::ssize(rows.tokens);

  int64_t block_width() const { return shape.kv_stride; }
  int64_t keys_width() const { return shape.kv_heads * shape.head_dim; }
  int64_t out_width() const { return shape.heads * shape.head_dim; }
  int owner(int hop) const { return (rank - hop + ranks) % ranks; }
  PartPlace part(int of_rank, size_t half) const {
    return {rows_in_ring(rows.starts.back(), of_rank, ranks)[half], static_cast<int64_t>(half) * (T / 2)};
  }
  Tensor block(DType dtype) const { return c.arena.allocate(dtype, {T, block_width()}, MemoryClass::workspace); }

  // All queries of this rank, with one half of the block: a query stands in one piece.
  std::vector<AttentionPiece> with_keys(int hop, size_t half) const {
    std::vector<AttentionPiece> pieces;
    for (const size_t own : {0, 1})
      add_pieces(rows.starts, part(rank, own), part(owner(hop), half), shape.window, pieces);
    return pieces;
  }
  // All keys of the block, with one half of this rank's queries: a key stands in one piece.
  std::vector<AttentionPiece> with_queries(int hop, size_t half) const {
    std::vector<AttentionPiece> pieces;
    for (const size_t theirs : {0, 1})
      add_pieces(rows.starts, part(rank, half), part(owner(hop), theirs), shape.window, pieces);
    return pieces;
  }
};

// Keys and values of the rows, which lie behind the queries, as a block.
void pack_block(const Ring& ring, const Tensor& qkv, const Tensor& block) {
  const int64_t size = size_of(qkv.dtype()), bytes = ring.block_width() * size, from = ring.out_width() * size,
                stride = ring.shape.q_stride * size;
  const auto* rows = static_cast<const std::byte*>(qkv.data());
  auto* to = static_cast<std::byte*>(block.data());
  parallel_ranges(ring.T, row_grain(ring.block_width()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      std::memcpy(to + t * bytes, rows + t * stride + from, static_cast<size_t>(bytes));
  });
}

// Sums to the columns of rows from `column` on, rounded once.
template <class T>
void store_columns(const AttentionSum<T>* sums, int64_t rows, int64_t width, T* to, int64_t column, int64_t stride) {
  parallel_ranges(rows, row_grain(width), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t i = 0; i < width; ++i) to[t * stride + column + i] = number_as<T>(sums[t * width + i]);
  });
}

template <class T>
void fold(const AttentionShape& shape, std::span<const AttentionPiece> pieces, const T* q, const T* block,
          int64_t keys_width, AttentionSum<T>* out, std::span<AttentionSum<T>> lse) {
  if constexpr (std::is_same_v<T, double>)
    attention_onto_ref(shape, pieces, q, block, block + keys_width, out, lse);
  else
    attention_onto<T>(shape, pieces, q, block, block + keys_width, out, lse);
}

template <class T>
void add_query_gradients(const AttentionShape& shape, std::span<const AttentionPiece> pieces,
                         const AttentionInputs<T>& x, AttentionSum<T>* dq) {
  if constexpr (std::is_same_v<T, double>)
    attention_queries_onto_ref(shape, pieces, x, dq);
  else
    attention_queries_onto<T>(shape, pieces, x, dq);
}

template <class T>
void add_key_gradients(const AttentionShape& shape, std::span<const AttentionPiece> pieces, const AttentionInputs<T>& x,
                       AttentionSum<T>* dk, int64_t keys_width) {
  if constexpr (std::is_same_v<T, double>)
    attention_keys_onto_ref(shape, pieces, x, dk, dk + keys_width);
  else
    attention_keys_onto<T>(shape, pieces, x, dk, dk + keys_width);
}

template <class T>
void forward(const Ring& ring, const Tensor& qkv, const Tensor& context, const Tensor& lse) {
  using Sum = AttentionSum<T>;
  const bool apart = !std::is_same_v<T, Sum>;
  const Tensor sums = apart ? ring.c.arena.allocate(lse.dtype(), context.shape(), MemoryClass::workspace) : context;
  const std::array<Tensor, 2> blocks{ring.block(qkv.dtype()), ring.block(qkv.dtype())};
  pack_block(ring, qkv, blocks[0]);
  std::ranges::fill(sums.span<Sum>(), Sum{0});
  std::ranges::fill(lse.span<Sum>(), -std::numeric_limits<Sum>::infinity());
  RingMessages messages(ring.c.context->comm);
  for (int hop = 0; hop < ring.ranks; ++hop) {
    const Tensor& block = blocks[static_cast<size_t>(hop % 2)];
    const bool last = hop + 1 == ring.ranks;
    if (!last) messages.send(block);
    for (const size_t half : {0, 1})
      fold<T>(ring.shape, ring.with_keys(hop, half), qkv.span<T>().data(), block.span<T>().data(), ring.keys_width(),
              sums.span<Sum>().data(), lse.span<Sum>());
    if (last) break;
    messages.receive(blocks[static_cast<size_t>((hop + 1) % 2)]);
    messages.settle();
  }
  if (apart)
    store_columns<T>(sums.span<Sum>().data(), ring.T, ring.out_width(), context.span<T>().data(), 0, ring.out_width());
}

// Gradients of a block's keys and values are waited for between the two halves of a hop: while they travel dq is computed.
template <class T>
void backward(const Ring& ring, const Tensor& qkv, const Tensor& context, const Tensor& dcontext, const Tensor& lse,
              const Tensor& dqkv) {
  using Sum = AttentionSum<T>;
  const std::array<Tensor, 2> blocks{ring.block(qkv.dtype()), ring.block(qkv.dtype())};
  const std::array<Tensor, 2> sums{ring.block(lse.dtype()), ring.block(lse.dtype())};
  const Tensor dq = ring.c.arena.zeros(lse.dtype(), context.shape(), MemoryClass::workspace);
  pack_block(ring, qkv, blocks[0]);
  std::ranges::fill(sums[0].span<Sum>(), Sum{0});
  RingMessages messages(ring.c.context->comm);
  for (int hop = 0; hop < ring.ranks; ++hop) {
    const auto at = static_cast<size_t>(hop % 2);
    const bool last = hop + 1 == ring.ranks;
    const T* keys = blocks[at].span<T>().data();
    const AttentionInputs<T> x{qkv.span<T>().data(),      keys,
                               keys + ring.keys_width(),  context.span<T>().data(),
                               dcontext.span<T>().data(), lse.span<Sum>().data()};
    if (!last) messages.send(blocks[at]);
    for (const size_t half : {0, 1})
      add_query_gradients<T>(ring.shape, ring.with_keys(hop, half), x, dq.span<Sum>().data());
    if (hop > 0) messages.receive(sums[at]);
    for (const size_t half : {0, 1})
      add_key_gradients<T>(ring.shape, ring.with_queries(hop, half), x, sums[at].span<Sum>().data(), ring.keys_width());
    if (!last) messages.receive(blocks[1 - at]);
    messages.settle();
    messages.send(sums[at]);
  }
  const Tensor& home = sums[static_cast<size_t>(ring.ranks % 2)];
  messages.receive(home);
  messages.settle();
  T* const to = dqkv.span<T>().data();
  store_columns<T>(dq.span<Sum>().data(), ring.T, ring.out_width(), to, 0, ring.shape.q_stride);
  store_columns<T>(home.span<Sum>().data(), ring.T, ring.block_width(), to, ring.out_width(), ring.shape.q_stride);
}

}  // namespace

std::string why_not_in_ring(const AttentionSpec& u) {
  if (u.cross || u.relative != 0) return "attends to an encoder, or by relative positions";
  if (!u.causal) return "attends to later tokens";
  if (u.alibi == AlibiKind::bf16) return "has slopes in bf16";
  return "";
}

void ring_forward(const AttentionShape& shape, const Rows& rows, const Tensor& qkv, const Tensor& context,
                  const Tensor& lse, const Compute& c) {
  const Ring ring{shape, rows, c};
  ops::by_dtype(qkv.dtype(), [&]<class T>() { forward<T>(ring, qkv, context, lse); });
}

void ring_backward(const AttentionShape& shape, const Rows& rows, const Tensor& qkv, const Tensor& context,
                   const Tensor& dcontext, const Tensor& lse, const Tensor& dqkv, const Compute& c) {
  const Ring ring{shape, rows, c};
  ops::by_dtype(qkv.dtype(), [&]<class T>() { backward<T>(ring, qkv, context, dcontext, lse, dqkv); });
}

}  // namespace tern
