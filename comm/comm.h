#pragma once
// Comm: what ranks do together, written once above any transport. Sums are taken by direct exchange: every rank gets
// what the others have of its part, and adds it to its own in a fixed tree, leaves in rank order (spec/sum_order.h).
// So bits depend neither on arrival, nor on the transport, nor on how a vector is cut.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace tern {

/// How the ranks' integers are combined.
enum class Combine : uint8_t { sum, most, least };

/// For each rank, views of the memory of its part of a vector. The parts need not make up the whole vector.
using RankParts = std::vector<std::vector<Tensor>>;
/// The parts that part_of (spec/layout.h) gives.
RankParts even_parts(std::span<const Tensor>, int ranks);

/// One rank's end, used by one thread at a time. All ranks make the same calls in the same order, with tensors of the same shapes and
/// types. Several tensors count as one vector, laid end to end. Each rank sums up one part of the vector: that of part_of, or
/// the one that the caller names; parts are sent in pieces of piece_of_part elements.
/// Types   sums: f64, f32, the integers (modulo 2^bits), and bf16 and f16, summed in f32 and rounded once. All other calls: any.
/// Memory  what waits to be summed: staging_elements of the longest part so far, counted in staging().
/// Errors  the transport's; usage for a sum of booleans.
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
  /// Every rank's tensor becomes the root's.
  void broadcast(const Tensor&, int root);
  /// send[r] goes to rank r, receive[r] comes from there; any sizes, if those of sender and receiver agree. An empty Tensor
  /// stands for no elements.
  void all_to_all(std::span<const Tensor> send, std::span<const Tensor> receive);
  /// The same with several tensors for each rank, one after the other: as many on both sides, of the same bytes.
  void all_to_all(const RankParts& send, const RankParts& receive);
  /// The same for the parts of one vector (even_parts): send[r] goes to rank r; row r of `receive` (ranks, elements of the
  /// part) becomes rank r's elements of the part that is this rank's, also for r = this rank.
  void all_to_all(const RankParts& send, const Tensor& receive);

  /// Each integer becomes the ranks' sum, most or least.
  void all_reduce(std::span<int64_t>, Combine);
  /// The same of numbers that ranks must not see differently: each is sent three times, and one changed copy changes nothing.
  void agree(std::span<int64_t>, Combine);
  /// All ranks' values in the order of ranks; every rank gives equally many.
  std::vector<double> gather(std::span<const double>);
  /// The root's text.
  std::string broadcast(std::string, int root);
  /// Returns when every rank has come here.
  void barrier();

  Transport& transport() { return *transport_; }
  const Arena& staging() const { return staging_arena_; }
  LinkBytes bytes() const;  // of all peers

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

/// The only rank of its world: nothing moves, nothing waits, no byte is counted.
std::unique_ptr<Comm> make_solo_comm();

}  // namespace tern
