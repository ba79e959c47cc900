#pragma once
// One number as another type. For model/ and adapt/ alone.

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "base/dtype.h"

namespace tern {

/// x as a To: exact where To holds it, else rounded to nearest; bf16 and f16 by way of f32.
template <class To, class From>
To number_as(From x) {
  if constexpr (std::is_same_v<To, From>)
    return x;
  else if constexpr (std::is_same_v<From, bf16> || std::is_same_v<From, f16>)
    return number_as<To>(to_float(x));
  else if constexpr (std::is_same_v<To, bf16>)
    return to_bf16(static_cast<float>(x));
  else if constexpr (std::is_same_v<To, f16>)
    return to_f16(static_cast<float>(x));
  else
    return static_cast<To>(x);
}

/// One number of a file, which need not be aligned.
template <class T>
T load_number(const std::byte* at) {
  T x;
  std::memcpy(&x, at, sizeof x);
  return x;
}

}  // namespace tern
