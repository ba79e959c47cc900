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

/// train.step counts receipts, train.samples those of all works sent; the momentum is the slot of --optimizer sgd, gradients are where
/// one arrives.
struct AsyncServerState {
  TrainState train;
  AsyncClock clock;
  int64_t next_dispatch = 0;
  std::vector<AsyncOutstanding> outstanding{};  // of each worker
  std::vector<int32_t> arrivals{};              // the worker of each receipt
};

/// Every worker has the first weights, works 0 to K-1.
AsyncServerState fresh_async_state(const TrainSettings&, const TrainInputs&, Arena&);
AsyncServerState load_async_state(const TrainSettings&, const TrainInputs&, Io&, const std::string& checkpoint,
                                  const Manifest&, Arena&);
/// The worker's next work: the weights as they are now.
void give_work(AsyncServerState&, int worker);

/// "model.NAME", "first.NAME", what is fixed; "outstanding.WORKER" (elements); "async.clock" (2), "async.orders" (workers, 2),
/// "async.arrivals" (receipts).
std::vector<NamedTensor> async_tensors(const TrainSettings&, const AsyncServerState&);
inline int num_async_tensors(int workers) { return workers + 3; }  // beside the rule's and the model's own
/// Bytes of what workers have, and of the rest after so many receipts.
int64_t async_outstanding_bytes(const ModelSpec&, const TrainSettings&);
int64_t async_record_bytes(const TrainSettings&, int64_t receipts);

}  // namespace tern
