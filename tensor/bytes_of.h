#pragma once

#include <cstddef>
#include <span>

#include "tensor/tensor.h"

namespace tern {

/// A tensor's memory; an empty span for an empty tensor.
inline std::span<std::byte> bytes_of(const Tensor& t) {
  if (t.empty()) return {};
  return {static_cast<std::byte*>(t.data()), static_cast<size_t>(t.bytes())};
}

}  // namespace tern
