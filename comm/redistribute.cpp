#include "comm/redistribute.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "comm/sum_parts.h"
#include "tensor/bytes_of.h"

namespace tern {
namespace {

// Where a coordinate of the whole tensor lies along a dim of a rank's tensor.
int64_t local_index(const std::vector<Interval>& held, int64_t index) {
  int64_t before = 0;
  for (const Interval& i : held) {
    if (i.begin <= index && index < i.end) return before + index - i.begin;
    before += i.size();
  }
  TERN_CHECK(false, "redistribute: index {} is not held", index);
}

// Calls visit(offset, count), in elements of the rank's tensor, for the stretches of a piece in its own order. A box lies
// within one interval of each dim, so its rows are whole in memory.
template <class Visit>
void each_stretch(const Holding& held, const Piece& piece, Visit visit) {
  const std::vector<int64_t> shape = local_shape(held);
  const int64_t row = piece.box.empty() ? 1 : piece.box.back().size();
  for (int64_t at = piece.part.begin; at < piece.part.end;) {
    const int64_t column = at % row, count = std::min(row - column, piece.part.end - at);
    int64_t offset = 0, left = at / row, stride = 1;
    for (size_t dim = piece.box.size(); dim-- > 0;) {
      int64_t index = column;
      if (dim + 1 < piece.box.size()) index = left % piece.box[dim].size(), left /= piece.box[dim].size();
      offset += local_index(held[dim], piece.box[dim].begin + index) * stride;
      stride *= shape[dim];
    }
    visit(offset, count);
    at += count;
  }
}

struct Redistributor {
  const Redistribution& r;
  const Tensor &before, &after;
  Comm& comm;
  Arena& arena;
  Holding held_before = holding(r.from, comm.rank()), held_after = holding(r.to, comm.rank());
  int64_t size = size_of(r.from.dtype);
  std::vector<Tensor> sent{};

  Tensor room(const Piece& piece) const { return arena.bytes(piece.part.size() * size, MemoryClass::workspace); }

  Tensor packed(const Holding& held, const Tensor& from, const Piece& piece) const {
    Tensor out = room(piece);
    auto* to = static_cast<std::byte*>(out.data());
    each_stretch(held, piece, [&](int64_t offset, int64_t count) {
      std::memcpy(to, static_cast<const std::byte*>(from.data()) + offset * size, static_cast<size_t>(count * size));
      to += count * size;
    });
    return out;
  }
  void unpack(const Tensor& bytes, const Piece& piece) const {
    const auto* from = static_cast<const std::byte*>(bytes.data());
    each_stretch(held_after, piece, [&](int64_t offset, int64_t count) {
      std::memcpy(static_cast<std::byte*>(after.data()) + offset * size, from, static_cast<size_t>(count * size));
      from += count * size;
    });
  }
  void send(int to, uint64_t tag, Tensor bytes) {
    comm.transport().send(to, tag, bytes_of(bytes));
    sent.push_back(std::move(bytes));
  }

  void sums(uint64_t tag) {
    for (const PieceSum& sum : r.sums)
      if (sum.rank != comm.rank() && std::ranges::count(sum.leaves, comm.rank()) > 0)
        send(sum.rank, tag, packed(held_before, before, sum.piece));
    for (const PieceSum& sum : r.sums) {
      if (sum.rank != comm.rank()) continue;
      std::vector<Tensor> summands;
      std::vector<std::byte*> leaves;
      for (const int leaf : sum.leaves) {
        summands.push_back(leaf == comm.rank() ? packed(held_before, before, sum.piece) : room(sum.piece));
        if (leaf != comm.rank()) comm.transport().recv(leaf, tag, bytes_of(summands.back()));
        leaves.push_back(static_cast<std::byte*>(summands.back().data()));
      }
      sum_parts(r.from.dtype, leaves, 0, sum.piece.part.size());
      unpack(summands[0], sum.piece);
    }
  }

  // What a sum has made lies in the result already.
  void moves(uint64_t tag) {
    const bool summed = !r.sums.empty();
    const Holding& held = summed ? held_after : held_before;
    for (const Move& m : r.moves) {
      if (m.from != comm.rank()) continue;
      Tensor bytes = packed(held, summed ? after : before, m.piece);
      m.to == m.from ? unpack(bytes, m.piece) : send(m.to, tag, std::move(bytes));
    }
    for (const Move& m : r.moves) {
      if (m.to != comm.rank() || m.from == m.to) continue;
      const Tensor bytes = room(m.piece);
      comm.transport().recv(m.from, tag, bytes_of(bytes));
      unpack(bytes, m.piece);
    }
  }
};

}  // namespace

Tensor redistribute(const Redistribution& r, const Tensor& local, Comm& comm, MemoryClass memory, Arena& arena) {
  const Holding held = holding(r.from, comm.rank());
  TERN_CHECK(comm.size() == r.from.num_ranks(), "redistribute: layouts of {} ranks in a world of {}",
             r.from.num_ranks(), comm.size());
  TERN_CHECK(local.dtype() == r.from.dtype && local.count() == local_count(held),
             "redistribute: {} elements of {}, rank {} holds {} of {}", local.count(), name_of(local.dtype()),
             comm.rank(), local_count(held), name_of(r.from.dtype));
  Shape shape;
  for (const int64_t length : local_shape(holding(r.to, comm.rank()))) shape.sizes[shape.rank++] = length;
  Tensor result = r.starts_zero[static_cast<size_t>(comm.rank())] ? arena.zeros(r.to.dtype, shape, memory)
                                                                  : arena.allocate(r.to.dtype, shape, memory);
  Redistributor work{r, local, result, comm, arena};
  try {
    work.sums(tag_of(MessageKind::redistribute, 0));
    work.moves(tag_of(MessageKind::redistribute, 1));
    comm.transport().flush();
  } catch (...) {
    comm.transport().cancel();
    throw;
  }
  return result;
}

}  // namespace tern
