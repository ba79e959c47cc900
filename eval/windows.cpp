#include "eval/windows.h"

#include <algorithm>

#include "base/error.h"

namespace tern {

std::string_view name_of(Convention convention) {
  switch (convention) {
    case Convention::stride:
      return "stride";
    case Convention::harness:
      return "harness";
    case Convention::gptq:
      return "gptq";
    case Convention::llamacpp:
      return "llamacpp";
  }
  return "stride";
}

Convention convention_from_name(std::string_view name) {
  for (const Convention c : {Convention::stride, Convention::harness, Convention::gptq, Convention::llamacpp})
    if (name_of(c) == name) return c;
  throw Error(ErrorKind::usage, "--convention '{}' is not known; use stride, harness, gptq or llamacpp", name);
}

std::vector<Window> stride_windows(std::span<const int32_t> text, int64_t window, int64_t stride, int32_t bos) {
  TERN_CHECK(window >= 2 && stride >= 1 && stride <= window, "stride_windows: window {}, stride {}", window, stride);
  std::vector<int32_t> tokens;
  if (bos >= 0) tokens.push_back(bos);
  tokens.insert(tokens.end(), text.begin(), text.end());
  const auto n = static_cast<int64_t>(tokens.size());
  std::vector<Window> windows;
  int64_t scored_to = 1;  // the very first token has no context
  for (int64_t begin = 0; scored_to < n; begin += stride) {
    const int64_t end = std::min(begin + window, n);
    // With stride = window the token at `begin` has no context inside its window and stays unscored, as in the usual
    // recipe.
    const int64_t first = std::max(scored_to, begin + 1);
    if (first < end) windows.push_back({{tokens.begin() + begin, tokens.begin() + end}, first - begin});
    scored_to = end;
    if (end == n) break;
  }
  return windows;
}

double stride_window_bytes(int64_t num_tokens, int64_t num_documents, int64_t window, int64_t stride, bool masked) {
  const double windows = static_cast<double>(num_tokens) / static_cast<double>(stride) +
                         2.0 * static_cast<double>(num_documents);  // a start each, and BOS in front of it
  const double longest = std::min(static_cast<double>(window), static_cast<double>(num_tokens) + 1);
  return windows * (longest * (masked ? 5.0 : 4.0) + 2.0 * sizeof(Window));
}

std::vector<Window> harness_windows(std::span<const int32_t> tokens, int64_t window, int32_t prefix) {
  TERN_CHECK(window >= 1, "harness_windows: window {}", window);
  const auto n = static_cast<int64_t>(tokens.size());
  std::vector<Window> windows;
  if (n == 0) return windows;
  int64_t predicted = std::min(window, n);
  Window first{{prefix}, 1};
  first.tokens.insert(first.tokens.end(), tokens.begin(), tokens.begin() + predicted);
  windows.push_back(std::move(first));
  while (predicted < n) {
    const int64_t count = std::min(n - predicted, window), end = predicted + count;
    const int64_t begin = end - window - 1;
    windows.push_back({{tokens.begin() + begin, tokens.begin() + end}, end - begin - count});
    predicted = end;
  }
  return windows;
}

std::vector<Window> gptq_windows(std::span<const int32_t> tokens, int64_t window) {
  TERN_CHECK(window >= 2, "gptq_windows: window {}", window);
  std::vector<Window> windows;
  for (int64_t begin = 0; begin + window <= static_cast<int64_t>(tokens.size()); begin += window)
    windows.push_back({{tokens.begin() + begin, tokens.begin() + begin + window}, 1});
  return windows;
}

std::vector<Window> llamacpp_windows(std::span<const int32_t> tokens, int64_t window, int32_t bos) {
  TERN_CHECK(window >= 4, "llamacpp_windows: window {}", window);
  std::vector<Window> windows = gptq_windows(tokens, window);
  for (Window& w : windows) {
    if (bos >= 0) w.tokens[0] = bos;
    w.first_scored = window / 2 + 1;
  }
  return windows;
}

}  // namespace tern
