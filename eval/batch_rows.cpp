#include "eval/batch_rows.h"

#include <algorithm>

#include "base/error.h"

namespace tern {

WindowBatches::WindowBatches(const std::vector<Window>& windows, const std::vector<std::vector<uint8_t>>& masks,
                             int64_t batch)
    : windows_(windows), masks_(masks), batch_(batch) {
  TERN_CHECK(batch >= 1 && (masks.empty() || masks.size() == windows.size()), "WindowBatches: batch {}, {} masks",
             batch, masks.size());
  for (const Window& w : windows) longest_ = std::max(longest_, static_cast<int64_t>(w.tokens.size()) - 1);
}

void WindowBatches::check(const ModelSpec& spec) const {
  for (const Window& w : windows_)
    for (const int32_t token : w.tokens)
      if (token < 0 || token >= spec.vocab)
        throw Error(
            ErrorKind::usage,
            "eval: token {} is outside the model's vocabulary of {}; was the text tokenized with another tokenizer?",
            token, spec.vocab);
  if (spec.embed().positions > 0 && longest_ > spec.embed().positions)
    throw Error(ErrorKind::usage,
                "eval: a window of {} tokens, the model has {} learned positions; use --window {} or less", longest_,
                spec.embed().positions, spec.embed().positions);
}

RopeTable WindowBatches::rope(const ModelSpec& spec) const {
  return spec.rope.kind == RopeKind::none ? RopeTable{} : rope_table(spec, longest_, longest_);
}

BatchRows WindowBatches::rows(size_t first) const {
  BatchRows b{.tokens = {}, .targets = {}, .starts = {0}};
  const size_t end = std::min(windows_.size(), first + static_cast<size_t>(batch_));
  for (size_t w = first; w < end; ++w) {
    const Window& window = windows_[w];
    const auto n = static_cast<int64_t>(window.tokens.size());
    for (int64_t i = 0; i + 1 < n; ++i) {
      const auto next = static_cast<size_t>(i + 1);
      const bool scored = i + 1 >= window.first_scored && (masks_.empty() || masks_[w][next] != 0);
      b.tokens.push_back(window.tokens[static_cast<size_t>(i)]);
      b.targets.push_back(scored ? window.tokens[next] : -1);
    }
    b.starts.push_back(static_cast<int64_t>(b.tokens.size()));
  }
  return b;
}

}  // namespace tern
