#pragma once
// Text that remembers, byte by byte, where it comes from: what a user wrote, what lies in an assistant's turn. A chat
// template cuts and joins such texts; the marks travel along.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/text_span.h"

namespace tern {

inline constexpr uint8_t kMarkUser = 1;        // came from the conversation, the tools or the documents
inline constexpr uint8_t kMarkGeneration = 2;  // stands between {% generation %} and {% endgeneration %}

/// A text with marks for each of its bytes, kept as runs of bytes with equal marks.
struct MarkedText {
  struct Run {
    size_t end;  // the run begins where the one before ends
    uint8_t marks;
    bool operator==(const Run&) const = default;
  };
  std::string bytes;
  std::vector<Run> runs;  // neighbours differ, the last ends at bytes.size(); none at all: no byte carries a mark

  MarkedText() = default;
  explicit MarkedText(std::string text, uint8_t marks = 0);

  size_t size() const { return bytes.size(); }
  uint8_t marks_at(size_t i) const;  // of byte i; 0 behind the end
  void append(std::string_view text, uint8_t marks = 0);
  void append(const MarkedText& text) { append(text, 0, text.size()); }
  void append(const MarkedText& text, size_t begin, size_t end);
  MarkedText slice(size_t begin, size_t end) const;
  void add_marks(uint8_t marks);  // to every byte
  /// The ranges whose bytes all carry every one of `marks`.
  std::vector<TextSpan> spans(uint8_t marks) const;
  size_t heap_bytes() const { return bytes.capacity() + runs.capacity() * sizeof(Run); }
};

}  // namespace tern
