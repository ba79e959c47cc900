#pragma once
// The limits that end a search early: time, a stop flag, and counts.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tern {

/// What ends a search early: a time, a flag, or a count. Only a count ends it at the same place on every machine.
struct Budget {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* stop = nullptr;
  int64_t labels = int64_t{1} << 62;
  int64_t bytes = int64_t{1} << 62;  // of labels and partial pipelines at once
  bool stopped() const {
    return (stop && stop->load(std::memory_order_relaxed)) ||
           (deadline != std::chrono::steady_clock::time_point::max() && std::chrono::steady_clock::now() >= deadline);
  }
};

}  // namespace tern
