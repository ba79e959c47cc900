#include "train/async_state.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "model/visit_weights.h"
#include "train/state_tensors.h"

namespace tern {
namespace {

void copy_tensor(const Tensor& from, const Tensor& to) {
  std::memcpy(to.data(), from.data(), static_cast<size_t>(from.bytes()));
}

// Memory for what each worker has, in one stretch each.
void add_outstanding(const TrainSettings& s, AsyncServerState& state, Arena& arena) {
  int64_t elements = 0;
  for (const Tensor& t : state.train.optimizer.master) elements += t.count();
  for (int k = 0; k < s.async->rule.workers; ++k) {
    AsyncOutstanding& o = state.outstanding.emplace_back();
    o.memory = arena.allocate(s.dtype, {elements}, MemoryClass::optimizer);
    int64_t at = 0;
    for (const Tensor& t : state.train.optimizer.master) {
      o.weights.push_back(o.memory.rows_view(at, at + t.count()).reshaped(t.shape()));
      at += t.count();
    }
  }
}

std::string outstanding_name(size_t worker) { return fmt::format("outstanding.{}", worker); }

Tensor integers(std::vector<int64_t> values, Shape shape) {
  const auto kept = std::make_shared<std::vector<int64_t>>(std::move(values));
  return Tensor::borrow(DType::i64, shape, kept->data(), kept);
}

std::span<const std::byte> bytes_of(const Safetensors& file, const std::string& name, DType dtype, size_t wanted) {
  const TensorView found = file.get(name);
  if (found.dtype != dtype || found.bytes.size() != wanted)
    throw Error(ErrorKind::bad_file, "{}: tensor '{}' is {} of {} bytes, this run has {} of {}", file.path(), name,
                found.dtype_name, found.bytes.size(), safetensors_name(dtype), wanted);
  return found.bytes;
}
template <class T>
void read_into(const Safetensors& file, const std::string& name, DType dtype, std::span<T> to) {
  const std::span<const std::byte> from = bytes_of(file, name, dtype, to.size_bytes());
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace

AsyncServerState fresh_async_state(const TrainSettings& s, const TrainInputs& in, Arena& arena) {
  AsyncServerState state{.train = fresh_state(s, in, arena), .clock = {}};
  add_outstanding(s, state, arena);
  for (int k = 0; k < s.async->rule.workers; ++k) give_work(state, k);
  return state;
}

void give_work(AsyncServerState& state, int worker) {
  AsyncOutstanding& o = state.outstanding[static_cast<size_t>(worker)];
  o.order = {.call = AsyncCall::work, .index = state.clock.receipts, .dispatch = state.next_dispatch++};
  for (size_t p = 0; p < o.weights.size(); ++p) copy_tensor(state.train.optimizer.master[p], o.weights[p]);
}

AsyncServerState load_async_state(const TrainSettings& s, const TrainInputs& in, Io& io, const std::string& checkpoint,
                                  const Manifest& manifest, Arena& arena) {
  AsyncServerState state{.train = load_state(s, in, io, checkpoint, manifest, arena), .clock = {}};
  add_outstanding(s, state, arena);
  const CheckpointData data(io, checkpoint, 0);
  const Safetensors& file = data.tensors();
  const auto workers = static_cast<size_t>(s.async->rule.workers);
  std::vector<int64_t> clock(2), orders(2 * workers);
  read_into(file, "async.clock", DType::i64, std::span(clock));
  read_into(file, "async.orders", DType::i64, std::span(orders));
  state.clock = {.receipts = manifest.step, .bucket = clock[0]}, state.next_dispatch = clock[1];
  state.arrivals.resize(static_cast<size_t>(manifest.step));
  read_into(file, "async.arrivals", DType::i32, std::span(state.arrivals));
  for (size_t k = 0; k < workers; ++k) {
    AsyncOutstanding& o = state.outstanding[k];
    o.order = {.call = AsyncCall::work, .index = orders[2 * k], .dispatch = orders[2 * k + 1]};
    const auto sent = bytes_of(file, outstanding_name(k), s.dtype, static_cast<size_t>(o.memory.bytes()));
    std::memcpy(o.memory.data(), sent.data(), sent.size());
  }
  return state;
}

std::vector<NamedTensor> async_tensors(const TrainSettings& s, const AsyncServerState& state) {
  std::vector<NamedTensor> list;
  for (const StateTensor& t : state_tensors(s.optimizer, s.dtype, state.train.optimizer))
    list.push_back({t.name, t.own});
  std::vector<int64_t> orders;
  for (const AsyncOutstanding& o : state.outstanding) orders.insert(orders.end(), {o.order.index, o.order.dispatch});
  const auto workers = std::ssize(state.outstanding);
  for (size_t k = 0; k < state.outstanding.size(); ++k)
    list.push_back({outstanding_name(k), state.outstanding[k].memory});
  list.push_back({"async.clock", integers({state.clock.bucket, state.next_dispatch}, {2})});
  list.push_back({"async.orders", integers(std::move(orders), {workers, 2})});
  const auto arrivals = std::make_shared<std::vector<int32_t>>(state.arrivals);
  list.push_back({"async.arrivals", Tensor::borrow(DType::i32, {std::ssize(*arrivals)}, arrivals->data(), arrivals)});
  return list;
}

int64_t async_outstanding_bytes(const ModelSpec& spec, const TrainSettings& s) {
  int64_t elements = 0;
  for (const ParameterInfo& info : trained_parameters(spec)) elements += info.shape.count();
  return s.async->rule.workers * elements * size_of(s.dtype);
}

int64_t async_record_bytes(const TrainSettings& s, int64_t receipts) {
  return 8 * (2 + 2 * s.async->rule.workers) + 4 * receipts;
}

}  // namespace tern
