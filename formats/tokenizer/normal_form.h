#pragma once
// Unicode's normal forms and lower case, as the normalizers of the reference (Hugging Face's tokenizers) write them.

#include <cstdint>
#include <string>
#include <string_view>

namespace tern {

/// The four normal forms.
enum class NormalForm { nfc, nfd, nfkc, nfkd };
/// The text (valid UTF-8) in this form, by the reference's older tables: what these do not know stays as it is.
std::string normalize_unicode(std::string_view text, NormalForm);
/// The text (valid UTF-8) in lower case, each character by lowercase_map (unicode.h).
std::string lowercase_unicode(std::string_view text);

}  // namespace tern
