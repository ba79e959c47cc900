#pragma once
// What ends a search early: time, a stop, and counts.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tern {

/// What ends a search early. Time and flag are looked at, the labels are counted: only the count is the same
/// everywhere.
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
