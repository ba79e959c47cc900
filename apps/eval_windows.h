#pragma once
// What `tern eval --data` measures: the windows of a text, by the convention asked for.

#include <cstdint>
#include <string>
#include <vector>

#include "eval/perplexity.h"

namespace tern {

class Options;
struct ModelDescription;

struct EvalWindows {
  std::vector<Window> windows;
  std::vector<std::vector<uint8_t>> masks;  // empty: everything is scored
  PerplexityReport report;                  // what is known before a model runs
};
/// Errors  usage, bad_file, does_not_fit: flags that do not belong together, no window to score, windows that take more
///         than the memory.
EvalWindows eval_windows(const Options&, const ModelDescription&);

/// What stands before the first token by --bos: BOS as the tokenizer does; without one EOS, which parts documents in
/// training; -1: nothing. `rule`: in words.
int32_t prefix_token(const Options&, const Tokenizer&, std::string& rule);

}  // namespace tern
