#include "base/repair_utf8.h"

#include "base/utf8.h"

namespace tern {
namespace {

// Calls `sound` with each part without ill-formed sequences, `broken` for each of those.
template <class Sound, class Broken>
void for_each_utf8_part(std::string_view text, const Sound& sound, const Broken& broken) {
  while (!text.empty()) {
    const size_t bad = find_invalid_utf8(text);
    sound(text.substr(0, bad));
    if (bad == text.npos) return;
    text.remove_prefix(bad);
    broken();
    text.remove_prefix(static_cast<size_t>(decode_utf8(text).num_bytes));
  }
}

constexpr std::string_view kUtf8Mark = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

size_t repaired_utf8_size(std::string_view text, Utf8Repair how) {
  size_t size = 0;
  const size_t mark = how == Utf8Repair::mark ? kUtf8Mark.size() : 0;
  for_each_utf8_part(
      text, [&](std::string_view part) { size += part.size(); }, [&] { size += mark; });
  return size;
}

void append_repaired_utf8(std::string& out, std::string_view text, Utf8Repair how) {
  const std::string_view mark = how == Utf8Repair::mark ? kUtf8Mark : std::string_view();
  for_each_utf8_part(
      text, [&](std::string_view part) { out += part; }, [&] { out += mark; });
}

// A sequence is a first byte and up to three that continue it, so it begins at most three bytes before its last one.
size_t utf8_boundary(std::string_view text, size_t near) {
  if (near >= text.size()) return text.size();
  for (size_t at = near; at + 3 >= near && at > 0; --at)
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80) return at;
  return near;
}

}  // namespace tern
