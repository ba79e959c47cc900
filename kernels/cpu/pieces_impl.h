#pragma once
// A kernel's scratch, handed out piece by piece by the code that also counts it. With internal linkage: *_isa.cpp files
// include it too (README.md, one hazard).

#include <cstdint>

#include "base/rounding.h"

namespace tern {
namespace {

/// Each piece begins on a cache line if `at` does; with no memory behind it, it only counts.
struct Pieces {
  void* at;
  int64_t taken = 0;
  template <class T>
  T* take(int64_t count) {
    T* const piece = at ? reinterpret_cast<T*>(static_cast<char*>(at) + taken) : nullptr;
    taken += round_up(count * static_cast<int64_t>(sizeof(T)), 64);
    return piece;
  }
};

}  // namespace
}  // namespace tern
