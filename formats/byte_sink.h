#pragma once
// How a writer asks for a tensor's bytes.

#include <cstddef>
#include <functional>
#include <span>

namespace tern {

/// Takes the next bytes of a tensor, any number at a time.
using ByteSink = std::function<void(std::span<const std::byte>)>;

}  // namespace tern
