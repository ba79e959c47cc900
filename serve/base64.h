#pragma once
// Base64: bytes written as text.

#include <string>
#include <string_view>

namespace tern {

/// Bytes in base64 (RFC 4648 §4, with padding).
std::string base64_of(std::string_view bytes);

}  // namespace tern
