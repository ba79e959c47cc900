#pragma once
// Comm: ranks talking. Today a world of one, which is a true no-op, so that training code is written once for any
// number of ranks; ranks as threads, Gloo, MPI and NCCL become further makers beside make_solo_comm.

#include <cstdint>
#include <memory>
#include <span>

#include "tensor/tensor.h"

namespace tern {

struct CommBytes {
  int64_t sent = 0, received = 0;  // over links, by this rank
};

class Comm {
 public:
  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Every rank's tensors become their sum over ranks, in rank order per element; equal shapes everywhere. f32 or f64.
  virtual void all_reduce_sum(std::span<Tensor* const>) = 0;
  /// Returns when every rank has come here.
  virtual void barrier() = 0;
  virtual CommBytes bytes() const = 0;
};

/// The only rank of its world: nothing moves, nothing waits, no byte is counted.
std::unique_ptr<Comm> make_solo_comm();

}  // namespace tern
