#pragma once
// Comm: the collectives, written once for all transports. Sums are taken by direct exchange: each rank sums one part of the vector. It
// receives the other ranks' values of that part and adds all values in a fixed tree, whose leaves are the ranks in order (spec/sum_order.h).
// So the bits of a sum depend neither on the order of arrival, nor on the transport, nor on how the vector is cut.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace tern {

/// How the values of all ranks become one: their sum, their maximum (most) or their minimum (least).
enum class Combine : uint8_t { sum, most, least };

/// For each rank, views of the memory of its part of a vector. The parts need not make up the whole vector.
using RankParts = std::vector<std::vector<Tensor>>;
/// Cuts the vector that these tensors form, laid end to end, into the parts that part_of (spec/layout.h) gives.
RankParts even_parts(std::span<const Tensor>, int ranks);

/// One rank's end of its world, used by one thread at a time. All ranks make the same calls in the same order, with tensors of the same
/// shapes and types (in all_to_all shapes may differ). Several tensors count as one vector, laid end to end. Each rank sums up one part of the vector: the part that
/// part_of gives it, or the part that the caller names. Parts are sent in pieces (piece_of_part, spec/collective_bytes.h).
/// Types   sums: f64, f32, the integers (modulo 2^bits), and bf16 and f16, summed in f32 and rounded once. All other calls: any.
/// Memory  received values that wait to be summed: at most staging_elements(longest part so far) elements (spec/collective_bytes.h); staging() counts them.
/// Errors  the transport's; usage: a sum of booleans.
class Comm {
 public:
  explicit Comm(std::unique_ptr<Transport>);
  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }

  /// Every rank's tensors become the sum over ranks.
  void all_reduce_sum(std::span<const Tensor>);
  /// This rank's parts become the sum; the contents of the other parts are undefined afterwards.
  void reduce_scatter_sum(const RankParts&);
  void reduce_scatter_sum(std::span<const Tensor> vector) { reduce_scatter_sum(even_parts(vector, size())); }
  /// Each rank's parts are copied to all other ranks.
  void all_gather(const RankParts&);
  void all_gather(std::span<const Tensor> vector) { all_gather(even_parts(vector, size())); }
  /// Every rank's tensor becomes the root's tensor.
  void broadcast(const Tensor&, int root);
  /// send[r] goes to rank r; receive[r] comes from rank r. Sizes may differ, but sender and receiver must expect the same size. An
  /// empty Tensor has no elements.
  void all_to_all(std::span<const Tensor> send, std::span<const Tensor> receive);
  /// The same with several tensors for each rank, one after the other. Sender and receiver have equally many, of the same bytes.
  void all_to_all(const RankParts& send, const RankParts& receive);
  /// The same for the parts of one vector (even_parts): send[r] goes to rank r. `receive` has the shape (ranks, elements of this rank's
  /// part). Its row r becomes rank r's values of this rank's part, also for r = this rank.
  void all_to_all(const RankParts& send, const Tensor& receive);

  /// Each integer becomes the sum, maximum or minimum of all ranks' values.
  void all_reduce(std::span<int64_t>, Combine);
  /// The same for numbers on which all ranks must agree: each is sent three times, so one corrupted copy changes no result.
  void agree(std::span<int64_t>, Combine);
  /// Returns all ranks' values, in rank order. Every rank passes equally many.
  std::vector<double> gather(std::span<const double>);
  /// Returns the root's text.
  std::string broadcast(std::string, int root);
  /// Returns when every rank has come here.
  void barrier();

  Transport& transport() { return *transport_; }
  const Arena& staging() const { return staging_arena_; }
  LinkBytes bytes() const;  // sum over all peers

 private:
  void scatter_sums(const RankParts&, uint64_t tag, int64_t begin);
  void gather_parts(const RankParts&, uint64_t tag, int64_t begin);
  void exchange_integers(std::span<int64_t>, Combine, int copies);
  uint64_t next(MessageKind kind) { return tag_of(kind, ++operations_); }

  std::unique_ptr<Transport> transport_;
  Arena staging_arena_;
  Tensor staging_;
  uint64_t operations_ = 0;
};

/// A Comm for a world of one rank: its collectives send nothing, wait for nothing and count no bytes.
std::unique_ptr<Comm> make_solo_comm();

}  // namespace tern
