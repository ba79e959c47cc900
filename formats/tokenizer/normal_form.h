#pragma once
// Unicode's normal forms and lower case, as the reference's normalizers write them.

#include <cstdint>
#include <string>
#include <string_view>

namespace tern {

enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::string normalize_unicode(std::string_view text, NormalForm);
std::string lowercase_unicode(std::string_view text);

}  // namespace tern
