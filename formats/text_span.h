#pragma once
// A range of bytes of a text.

#include <cstddef>

namespace tern {

/// A half-open range of bytes of some text.
struct TextSpan {
  size_t begin = 0, end = 0;
  bool operator==(const TextSpan&) const = default;
};

}  // namespace tern
