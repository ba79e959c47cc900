#include "adapt/window_prompt.h"

#include <algorithm>

namespace tern {

int64_t prompt_rows(const MicroBatch& window, int64_t prompt_tokens) {
  const auto first = std::ranges::find_if(window.targets, [](int32_t t) { return t >= 0; }) - window.targets.begin();
  const auto rows = std::ssize(window.targets);
  return first > 0 ? std::min<int64_t>(first + 1, rows) : std::min(prompt_tokens, rows);
}

void hide_prompt(MicroBatch& window, int64_t prompt_tokens) {
  const int64_t rows = prompt_rows(window, prompt_tokens);
  std::fill(window.targets.begin(), window.targets.begin() + rows - 1, -1);
}

}  // namespace tern
