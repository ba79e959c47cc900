#include "train/checkpoint_writer.h"

#include <cstring>
#include <utility>

#include "tensor/bytes_of.h"

namespace tern {
namespace {

std::vector<TensorToWrite> to_write(const std::vector<NamedTensor>& staged) {
  std::vector<TensorToWrite> list;
  for (const NamedTensor& t : staged) {
    TensorToWrite w{.name = t.name, .dtype = t.tensor.dtype(), .shape = {}, .bytes = {}, .produce = {}};
    for (int d = 0; d < t.tensor.shape().rank; ++d) w.shape.push_back(t.tensor.shape()[d]);
    w.bytes = bytes_of(t.tensor);
    list.push_back(std::move(w));
  }
  return list;
}

}  // namespace

CheckpointWriter::CheckpointWriter(Io& io, Arena& arena, Config config)
    : io_(io), arena_(arena), config_(std::move(config)), lives_(io, config_.checkpoints, config_.id) {}

CheckpointWriter::~CheckpointWriter() {
  if (thread_.joinable()) thread_.join();
}

std::vector<NamedTensor> CheckpointWriter::stage(const std::vector<TensorForm>& forms) {
  wait();
  std::vector<NamedTensor> staged;
  for (const TensorForm& f : forms) staged.push_back({f.name, arena_.allocate(f.dtype, f.shape, MemoryClass::staging)});
  return staged;
}

void CheckpointWriter::save(Manifest manifest, const std::vector<NamedTensor>& state) {
  std::vector<TensorForm> forms;
  for (const NamedTensor& t : state) forms.push_back({t.name, t.tensor.dtype(), t.tensor.shape()});
  std::vector<NamedTensor> staged = stage(forms);
  for (size_t i = 0; i < state.size(); ++i)
    std::memcpy(staged[i].tensor.data(), state[i].tensor.data(), static_cast<size_t>(state[i].tensor.bytes()));
  start(std::move(manifest), std::move(staged));
}

template <class Work>
void CheckpointWriter::keep_error_of(Work work) {
  try {
    work();
  } catch (...) {  // also what is no Error: a test's simulated kill
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
  }
}

void CheckpointWriter::start(Manifest manifest, std::vector<NamedTensor> staged) {
  thread_ = std::jthread([this, m = std::move(manifest), s = std::move(staged)]() mutable {
    keep_error_of([&] { commit(m, to_write(s)); });
    s.clear();  // the staging memory ends with the write, not with the next save
  });
}

void CheckpointWriter::start(Manifest manifest, std::unique_ptr<IoFile> data) {
  thread_ = std::jthread([this, m = std::move(manifest), file = std::move(data)] {
    keep_error_of([&] {
      file->sync();
      file->close();
      end_checkpoint(io_, config_.checkpoints, config_.id, m);
      committed(m.step);
    });
  });
}

void CheckpointWriter::commit(const Manifest& manifest, std::span<const TensorToWrite> tensors) {
  commit_checkpoint(io_, config_.checkpoints, config_.id, config_.rank, manifest, tensors);
  committed(manifest.step);
}

void CheckpointWriter::committed(int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    committed_ = step;
  }
  retire_checkpoints(io_, config_.checkpoints, config_.keep, config_.id);
}

void CheckpointWriter::write_now(Manifest manifest, std::span<const TensorToWrite> tensors) {
  wait();
  commit(manifest, tensors);
}

void CheckpointWriter::wait() {
  if (thread_.joinable()) thread_.join();
  poll();
}

void CheckpointWriter::poll() {
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    error = std::exchange(error_, nullptr);
  }
  if (error) std::rethrow_exception(error);
}

int64_t CheckpointWriter::committed_step() const {
  const std::lock_guard lock(mutex_);
  return committed_;
}

}  // namespace tern
