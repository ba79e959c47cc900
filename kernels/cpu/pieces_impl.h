#pragma once
// Hands out a kernel's scratch piece by piece; the same code counts its bytes. Everything has internal linkage, as *_isa.cpp files include
// this header, too (kernels/README.md, one hazard).

#include <cstdint>

#include "base/rounding.h"

namespace tern {
namespace {

/// Each piece begins on a cache line if `at` does. If `at` is null, take() only counts, and returns null.
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
