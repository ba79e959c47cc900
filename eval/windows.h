#pragma once
// Which tokens are scored, and which tokens the model sees before them, under the conventions by which people quote perplexities. Pure functions,
// without a model. Sources: lm-evaluation-harness (disjoint rolling windows), GPTQ's evaluation, llama.cpp's perplexity. Figures of unlike
// conventions cannot be compared; every report names its convention.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

enum class Convention : uint8_t { stride, harness, gptq, llamacpp };
std::string_view name_of(Convention);
Convention convention_from_name(std::string_view);  // errors: usage
/// The tokens that a model sees at once. Tokens [first_scored, tokens.size()) are scored; row i − 1 predicts token i.
struct Window {
  std::vector<int32_t> tokens;
  int64_t first_scored;  // ≥ 1
  int64_t num_scored() const { return static_cast<int64_t>(tokens.size()) - first_scored; }
};

/// Sliding windows. The first window scores all but its first token. Each next window begins `stride` tokens later and scores
/// its new tokens; if stride = window, all but the first of them. If bos ≥ 0, that token is put before the text, and the text's
/// first token is scored too. stride ≤ window.
std::vector<Window> stride_windows(std::span<const int32_t> tokens, int64_t window, int64_t stride, int32_t bos);
/// An upper bound of the bytes that the windows of `num_tokens` tokens in `num_documents` documents take, as overlapping windows repeat tokens. `masked`: with
/// a mask for each token.
double stride_window_bytes(int64_t num_tokens, int64_t num_documents, int64_t window, int64_t stride, bool masked);
/// Windows as in lm-evaluation-harness: disjoint, with `window` predictions each. The first token is predicted from `prefix` (BOS or EOS). The
/// last window is extended to the left to its full length and scores only its new tokens.
std::vector<Window> harness_windows(std::span<const int32_t> tokens, int64_t window, int32_t prefix);
/// Windows as in GPTQ's evaluation: floor(n / window) of them, each with window − 1 predictions and without a further BOS. The rest of the tokens
/// is dropped.
std::vector<Window> gptq_windows(std::span<const int32_t> tokens, int64_t window);
/// Windows as in llama.cpp: chunks of `window` tokens, the first token of each replaced by `bos` (if ≥ 0), scored from window/2 on. The rest of the
/// tokens is dropped.
std::vector<Window> llamacpp_windows(std::span<const int32_t> tokens, int64_t window, int32_t bos);

}  // namespace tern
