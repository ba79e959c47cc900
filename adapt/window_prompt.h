#pragma once
// The prompt of a window: the rows by which gates decide (docs/continual.md).

#include <cstdint>

#include "exec/micro_batch.h"

namespace tern {

/// How many of a window's first rows are its prompt. If the first targets have no loss (a conversation), the prompt reaches to the first
/// target with a loss; otherwise it has `prompt_tokens` rows, or all rows if there are fewer.
int64_t prompt_rows(const MicroBatch& window, int64_t prompt_tokens);
/// Removes the loss of targets inside the prompt, as the gates have read them.
void hide_prompt(MicroBatch& window, int64_t prompt_tokens);

}  // namespace tern
