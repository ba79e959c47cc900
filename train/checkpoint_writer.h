#pragma once
// Checkpoints off the training thread: the state is copied to counted staging memory, a background thread writes and
// commits the copy while training goes on.

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

/// A tensor of the state by its name in the checkpoint: "model.NAME", "first.NAME", "second.NAME".
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

struct TensorForm {
  std::string name;
  DType dtype;
  Shape shape;
};

/// At most one checkpoint is being written at a time. Not for use from several threads.
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
  /// Waits until the write in progress has ended. An error of the write that neither wait nor poll has thrown is lost.
  ~CheckpointWriter();

  /// Memory to copy a state of such tensors to (MemoryClass::staging, as many bytes); waits for the previous write. Errors: as save.
  std::vector<NamedTensor> stage(const std::vector<TensorForm>&);
  /// Starts writing what was staged.
  void start(Manifest, std::vector<NamedTensor> staged);
  /// stage, copy, start: copies `state` (MemoryClass::staging, as many bytes as the tensors) and starts writing it; waits for the
  /// previous write. Errors  those of the previous write; does_not_fit.
  void save(Manifest, const std::vector<NamedTensor>& state);
  /// Writes and commits on the calling thread, without a copy: tensors may be produced piece by piece. Errors: as save, and of this write.
  void write_now(Manifest, std::span<const TensorToWrite>);
  /// Waits until nothing is being written. Errors: the write's, once.
  void wait();
  /// Throws the error of a finished write, without waiting.
  void poll();
  /// Highest step known to be committed by this writer, -1 before.
  int64_t committed_step() const;

 private:
  void write(const Manifest&, const std::vector<NamedTensor>& staged);
  void commit(const Manifest&, std::span<const TensorToWrite>);

  Io& io_;
  Arena& arena_;
  Config config_;
  WriterLock lives_;
  mutable std::mutex mutex_;
  std::exception_ptr error_;
  int64_t committed_ = -1;
  std::jthread thread_;
};

}  // namespace tern
