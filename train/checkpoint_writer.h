#pragma once
// Writes checkpoints while training goes on: the state is copied to counted staging memory, and a background thread writes and commits the
// copy. If ranks share the state out, each rank writes its own part beforehand, and the background thread only syncs and commits.

#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/io.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"
#include "train/checkpoint.h"
#include "train/manifest.h"

namespace tern {

/// A tensor of the state and its name in the checkpoint: SLOT.NAME, as "model.NAME" or "first.NAME".
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// A tensor of a checkpoint without its numbers.
struct TensorForm {
  std::string name;
  DType dtype;
  Shape shape;
};

/// At most one checkpoint is being written at a time. One thread makes all calls.
class CheckpointWriter {
 public:
  struct Config {
    std::string checkpoints;  // directory
    std::string id;           // makes temporary names unique
    int keep = 2;             // committed checkpoints to keep, at least 1
    int rank = 0;             // names its data file
  };
  /// Errors: as WriterLock.
  CheckpointWriter(Io&, Arena&, Config);
  /// Waits until the write in progress has ended. If that write failed, and neither wait nor poll has thrown its error, the error is lost.
  ~CheckpointWriter();

  /// Waits for the previous write, then allocates tensors of these forms for a copy of the state (MemoryClass::staging). Errors: as save.
  std::vector<NamedTensor> stage(const std::vector<TensorForm>&);
  /// Starts writing the tensors that stage returned.
  void start(Manifest, std::vector<NamedTensor> staged);
  /// Starts syncing the data file, which all ranks have written (train/shared_checkpoint.h), and committing it with this manifest.
  void start(Manifest, std::unique_ptr<IoFile> data);
  /// Waits for the previous write, copies `state` into memory of `stage`, and starts writing the copy. Errors  those of the previous write;
  /// does_not_fit.
  void save(Manifest, const std::vector<NamedTensor>& state);
  /// Writes and commits on the calling thread, without a copy, so that tensors may be produced piece by piece. Errors: as save; those of this
  /// write.
  void write_now(Manifest, std::span<const TensorToWrite>);
  /// Waits until nothing is being written. Errors: those of the write, thrown once.
  void wait();
  /// Throws the error of a write that has ended, if it failed. Does not wait.
  void poll();
  /// The highest step that this writer is known to have committed; −1: none.
  int64_t committed_step() const;

 private:
  template <class Work>
  void keep_error_of(Work);
  void commit(const Manifest&, std::span<const TensorToWrite>);
  void committed(int64_t step);

  Io& io_;
  Arena& arena_;
  Config config_;
  WriterLock lives_;
  mutable std::mutex mutex_;  // guards error_ and committed_
  std::exception_ptr error_;
  int64_t committed_ = -1;
  std::jthread thread_;
};

}  // namespace tern
