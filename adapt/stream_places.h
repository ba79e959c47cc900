#pragma once
// Where the files of a stream of tasks lie (adapt/stream.h lists them).

#include <string>

#include "adapt/stream.h"

namespace tern {

/// The name of the file in a task's directory that holds what the next task needs: memories of inputs or matrices.
inline constexpr const char* kStreamMemory = "memory.safetensors";

/// Paths in OUT. Tasks t count from 0.
struct StreamPlaces {
  const StreamSettings& s;
  // OUT/name.
  std::string of_stream(const std::string& name) const { return join_path(s.train.output, name); }
  // OUT/01-NAME of task 0.
  std::string directory(size_t t) const;
  // A file or directory of the task.
  std::string in(size_t t, const std::string& name) const { return join_path(directory(t), name); }
  // The adapter that the task's run trained.
  std::string adapter(size_t t) const { return join_path(in(t, "run"), "adapter"); }
};

}  // namespace tern
