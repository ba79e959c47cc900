#pragma once
// The mesh of a pipeline stage.

#include <cstdint>

namespace tern {

/// Ranks of one stage, the tensor axis innermost, then context, then data. The experts' view of the same ranks:
/// expert_tensor innermost, then expert, the rest replicas.
struct Mesh {
  int64_t tensor = 1, context = 1, data = 1;
  int64_t expert = 1, expert_tensor = 1;
  bool ulysses = false;  // context by all-to-all over heads; false: a ring of keys and values
  int64_t devices() const { return tensor * context * data; }
  /// Replicas, the ranks with the same dense parameters. Each group of `context` replicas is one data share: it sees the same micro-batches.
  int64_t replicas() const { return context * data; }
  int64_t expert_replicas() const { return devices() / (expert * expert_tensor); }
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

}  // namespace tern
