#pragma once
// All that changes on the server of asynchronous training, and a checkpoint's form of it.

#include <cstdint>
#include <vector>

#include "train/async_messages.h"
#include "train/train_state.h"
#include "update/async_rule.h"

namespace tern {

/// A worker's work under way: what was sent to the worker, until its gradient arrives.
struct AsyncOutstanding {
  AsyncHeader order;
  std::vector<Tensor> weights{};  // of the trained parameters, as they were sent
  Tensor memory{};                // of all of them
};

/// train.step counts receipts, train.samples the samples of all works that were sent; the momentum is the slot of --optimizer
/// sgd; train.gradients is the memory into which a worker's gradient is received.
struct AsyncServerState {
  TrainState train;
  AsyncClock clock;
  int64_t next_dispatch = 0;
  std::vector<AsyncOutstanding> outstanding{};  // of each worker
  std::vector<int32_t> arrivals{};              // the worker of each receipt
};

/// The beginning: worker k was sent the first weights and work k.
AsyncServerState fresh_async_state(const TrainSettings&, const TrainInputs&, Arena&);
AsyncServerState load_async_state(const TrainSettings&, const TrainInputs&, Io&, const std::string& checkpoint,
                                  const Manifest&, Arena&);
/// Makes the worker's next work, with the weights as they are now.
void give_work(AsyncServerState&, int worker);

/// The tensors of a checkpoint: "model.NAME", "first.NAME", the tensors that no update changes; "outstanding.WORKER"
/// (elements); "async.clock" (2), "async.orders" (workers, 2), "async.arrivals" (receipts).
std::vector<NamedTensor> async_tensors(const TrainSettings&, const AsyncServerState&);
inline int num_async_tensors(int workers) { return workers + 3; }  // beside the rule's and the model's own
/// async_outstanding_bytes: of the weights kept for workers' outstanding works. async_record_bytes: of clock, orders and
/// arrivals after `receipts` receipts.
int64_t async_outstanding_bytes(const ModelSpec&, const TrainSettings&);
int64_t async_record_bytes(const TrainSettings&, int64_t receipts);

}  // namespace tern
