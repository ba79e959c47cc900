#pragma once
// The messages between the server and the workers of asynchronous training: a header; after the headers `work` and `gradient` also the
// tensors of the model. Rank 0 is the server; worker k is rank k + 1.

#include <cstdint>
#include <span>
#include <vector>

#include "comm/transport.h"
#include "tensor/tensor.h"

namespace tern {

/// What a message says.
enum class AsyncCall : int64_t {
  // Server to worker: compute the gradient of the samples of `dispatch`. The weights after `index` receipts follow.
  work,
  gradient,  // worker to server: the gradient that this worker was asked for; its tensors follow
  leaves,    // worker to server: this worker leaves and sends nothing more
  stop,      // server to worker: the run ends
};

/// The header of a message, sent byte for byte.
struct AsyncHeader {
  AsyncCall call = AsyncCall::work;
  int64_t index = 0;     // receipts of the server when it sent the weights
  int64_t dispatch = 0;  // the number of the work, from 0; it determines the samples
  // Only the header of a gradient has the rest.
  double loss_sum = 0;       // Σ −log p over `targets`, in nats
  double gradient_norm = 0;  // before clipping
  int64_t targets = 0;       // targets with a loss
  int64_t peak_bytes = 0;    // counted peak of the worker's pass
  int64_t state_bytes = 0;   // counted: what the worker keeps between works
  int64_t mismatches = 0;    // instructions whose counted bytes are not the predicted ones
};

/// Sends without waiting. Header and tensors must stay unchanged until the receiver has answered. Errors of all three: the transport's.
void post(Transport&, int to, const AsyncHeader&, std::span<const Tensor>);
/// Receives a header from the first rank of `from`, in that order, that has sent one. Waits for one. Returns its rank.
int receive_header(Transport&, std::span<const int> from, AsyncHeader&);
/// Receives the tensors that follow a header from rank `from`. They must have the shapes and types with which they were sent.
void receive_tensors(Transport&, int from, std::span<const Tensor>);

}  // namespace tern
