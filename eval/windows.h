#pragma once
// Which tokens are scored under which context: the perplexity conventions people quote, as data. Pure functions: no
// model. Sources: lm-evaluation-harness (disjoint rolling windows), GPTQ's evaluation,
// llama.cpp's perplexity. Figures of different conventions cannot be compared with each other; every report names its
// convention.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

enum class Convention : uint8_t { stride, harness, gptq, llamacpp };
std::string_view name_of(Convention);
Convention convention_from_name(std::string_view);  // Errors: usage

/// One forward: tokens as the model sees them; positions [first_scored, tokens.size()) are scored, token i by the row
/// i-1.
struct Window {
  std::vector<int32_t> tokens;
  int64_t first_scored;  // ≥ 1
  int64_t num_scored() const { return static_cast<int64_t>(tokens.size()) - first_scored; }
};

/// Sliding windows: the first window scores all but its first token; each next one moves by `stride` and scores what is
/// new. With bos ≥ 0 it stands before the text and the first token is scored too. stride ≤ window.
std::vector<Window> stride_windows(std::span<const int32_t> tokens, int64_t window, int64_t stride, int32_t bos);
/// Bytes that the windows of so many tokens in so many documents take at most, to be asked before they are made:
/// overlapping windows repeat tokens. `masked`: with a mask per token.
double stride_window_bytes(int64_t num_tokens, int64_t num_documents, int64_t window, int64_t stride, bool masked);
/// lm-evaluation-harness: disjoint windows of `window` predictions, the first token conditioned on `prefix` (BOS or
/// EOS); the last window is extended to the left to its full length and scores only what is new.
std::vector<Window> harness_windows(std::span<const int32_t> tokens, int64_t window, int32_t prefix);
/// GPTQ style: floor(n / window) windows, the tail dropped, window - 1 predictions each, no further BOS.
std::vector<Window> gptq_windows(std::span<const int32_t> tokens, int64_t window);
/// llama.cpp: chunks of `window`, the first token of each replaced by `bos` (if ≥ 0), scored from window/2 on, tail
/// dropped.
std::vector<Window> llamacpp_windows(std::span<const int32_t> tokens, int64_t window, int32_t bos);

}  // namespace tern
