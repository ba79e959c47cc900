#pragma once
// Loops over a range of elements, for *_isa.cpp files: whole vectors first, then one tail. Both use the same operations, so that an element's
// bits do not depend on where the range begins or ends.

#include "kernels/cpu/lanes_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

/// Loads the first n lanes, n <= kLanes; the other lanes are zero. n == kLanes takes the unmasked load.
template <class T>
inline Vec load_some(const T* p, int64_t n) {
  return n == kLanes ? load(p) : load(p, n);
}
template <class T>
inline void store_some(T* p, Vec v, int64_t n) {
  if (n == kLanes)
    store(p, v);
  else
    store(p, v, n);
}

/// body(i, n) for each vector of [0, count): n lanes from element i.
template <class Body>
inline void for_each_lanes(int64_t count, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(i, static_cast<int64_t>(kLanes));
  if (i < count) body(i, count - i);
}

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
