#pragma once
// The split patterns that nearly all models use, scanned by hand.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tern {

/// The hand-written scanners. For the first five every character belongs to a match, so the matches tile the text.
enum class ScanKind {
  gpt2,
  llama3,
  cl100k,
  qwen2,
  o200k,
  deepseek,
  east_asian,    // DeepSeek's second split
  numbers,       // DeepSeek's first
  three_digits,  // Falcon's
  bloom,
};
constexpr int kNumScanKinds = 10;
constexpr bool scan_tiles(ScanKind kind) { return kind <= ScanKind::o200k; }
/// The pattern each one stands for, as it is spelled in tokenizer.json.
std::string_view pattern_of(ScanKind);
/// The end of the piece that begins at `begin`: a match, or the text up to the next match. `text` is valid UTF-8;
/// `begin`, below text.size(), is 0 or the end of the piece before.
size_t scan_piece(ScanKind, std::string_view text, size_t begin);

}  // namespace tern
