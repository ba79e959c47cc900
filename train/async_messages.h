#pragma once
// What a server and its workers send each other: a header, and the model's tensors behind it. Rank 0 is the server, worker k is rank
// k + 1.

#include <cstdint>
#include <span>
#include <vector>

#include "comm/transport.h"
#include "tensor/tensor.h"

namespace tern {

enum class AsyncCall : int64_t {
  work,  // server to worker: the weights as they were after `index` receipts follow; the worker computes the gradient of
         // the samples of `dispatch`
  gradient,  // worker to server: the gradient of that work follows
  leaves,    // worker to server: this worker leaves and sends nothing more
  stop,      // server to worker
};

/// The header of a message, byte for byte.
struct AsyncHeader {
  AsyncCall call = AsyncCall::work;
  int64_t index = 0, dispatch = 0;
  double loss_sum = 0, gradient_norm = 0;  // of a gradient: Σ -log p over `targets`; before clipping
  int64_t targets = 0;
  int64_t peak_bytes = 0, state_bytes = 0, mismatches = 0;  // of the worker: counted
};

/// Sends without waiting; header and tensors must stay unchanged until the receiver has answered.
void post(Transport&, int to, const AsyncHeader&, std::span<const Tensor>);
/// Receives a header from the first rank of `from`, in that order, that has sent one. Returns its rank.
int receive_header(Transport&, std::span<const int> from, AsyncHeader&);
void receive_tensors(Transport&, int from, std::span<const Tensor>);

}  // namespace tern
