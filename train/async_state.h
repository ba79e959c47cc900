#pragma once
// All that changes on the server of asynchronous training, and the form that it has in a checkpoint.

#include <cstdint>
#include <vector>

#include "train/async_messages.h"
#include "train/train_state.h"
#include "update/async_rule.h"

namespace tern {

/// The work that a worker does now. The server keeps the weights that it sent until the gradient arrives.
struct AsyncOutstanding {
  AsyncHeader order;
  std::vector<Tensor> weights{};  // the trained parameters as they were sent: views of `memory`
  Tensor memory{};                // one stretch for all of them
};

/// The server's state. A receipt is a gradient that the server has taken.
struct AsyncServerState {
  // `step` counts receipts; `samples` counts the samples of all works that were sent; `optimizer` keeps sgd's momentum; `gradients` receives
  // a worker's gradient.
  TrainState train;
  AsyncClock clock;
  int64_t next_dispatch = 0;                    // the number of the next work
  std::vector<AsyncOutstanding> outstanding{};  // by worker
  std::vector<int32_t> arrivals{};              // by receipt: its worker
};

/// The state at the beginning, when worker k has work k and the first weights. Errors: those of fresh_state.
AsyncServerState fresh_async_state(const TrainSettings&, const TrainInputs&, Arena&);
/// The state of a verified checkpoint. Errors: those of load_state.
AsyncServerState load_async_state(const TrainSettings&, const TrainInputs&, Io&, const std::string& checkpoint,
                                  const Manifest&, Arena&);
/// Makes the worker's next work, with the weights as they are now.
void give_work(AsyncServerState&, int worker);

/// The tensors of a checkpoint: "model.NAME", "first.NAME" and the tensors that no update changes, as of any run; for each worker
/// "outstanding.WORKER" (elements of all trained parameters); "async.clock" (2), "async.orders" (workers, 2), "async.arrivals" (receipts).
std::vector<NamedTensor> async_tensors(const TrainSettings&, const AsyncServerState&);
/// The number of the tensors that only an asynchronous run has.
inline int num_async_tensors(int workers) { return workers + 3; }
/// Bytes of the weights that the server keeps for the works under way.
int64_t async_outstanding_bytes(const ModelSpec&, const TrainSettings&);
/// Bytes of clock, orders and arrivals after `receipts` receipts.
int64_t async_record_bytes(const TrainSettings&, int64_t receipts);

}  // namespace tern
