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
  for (size_t w = first; w < end; ++w) add_rows(windows_[w], 0, masks_.empty() ? nullptr : &masks_[w], b);
  return b;
}

// Rows from `from` on, as a sequence.
void WindowBatches::add_rows(const Window& window, int64_t from, const std::vector<uint8_t>* mask, BatchRows& b) const {
  for (int64_t i = from; i + 1 < std::ssize(window.tokens); ++i) {
    const auto next = static_cast<size_t>(i + 1);
    const bool scored = i + 1 >= window.first_scored && (!mask || (*mask)[next] != 0);
    b.tokens.push_back(window.tokens[static_cast<size_t>(i)]);
    b.targets.push_back(scored ? window.tokens[next] : -1);
  }
  b.starts.push_back(static_cast<int64_t>(b.tokens.size()));
}

// How many first rows the windows [first, end) have in common; `end` is lowered to those that have nearly all of the prompt in common, as the
// tokens at its end may depend on what follows.
int64_t WindowBatches::shared_rows(size_t first, size_t& end) const {
  constexpr int64_t kAtTheEnd = 4, kWorthwhile = 8;
  const Window& leader = windows_[first];
  int64_t rows = leader.first_scored - 1;
  for (size_t w = first + 1; w < end; ++w) {
    const Window& other = windows_[w];
    const auto differ = std::ranges::mismatch(leader.tokens, other.tokens).in1;
    const int64_t alike = std::min<int64_t>(rows, differ - leader.tokens.begin());
    if (other.first_scored != leader.first_scored || alike + kAtTheEnd < leader.first_scored)
      end = w;
    else
      rows = alike;
  }
  return end - first > 1 && rows >= kWorthwhile ? rows : 0;
}

BatchRows WindowBatches::rows_with_prompts(size_t first) const {
  if (!masks_.empty()) return rows(first);
  BatchRows b{.tokens = {}, .targets = {}, .starts = {0}};
  const size_t last = std::min(windows_.size(), first + static_cast<size_t>(batch_));
  for (size_t begin = first, end = last; begin < last; begin = end, end = last) {
    const int64_t shared = shared_rows(begin, end);
    if (shared == 0) end = begin + 1;
    const auto prompt = static_cast<int>(b.follows.size());
    if (shared > 0) {
      const std::vector<int32_t>& tokens = windows_[begin].tokens;
      b.tokens.insert(b.tokens.end(), tokens.begin(), tokens.begin() + shared);
      b.targets.resize(b.tokens.size(), -1);
      b.starts.push_back(std::ssize(b.tokens));
      b.follows.push_back(-1);
    }
    for (size_t w = begin; w < end; ++w) {
      add_rows(windows_[w], shared, nullptr, b);
      b.of_window.push_back(b.follows.size());
      b.follows.push_back(shared > 0 ? prompt : -1);
    }
  }
  return b;
}

}  // namespace tern
