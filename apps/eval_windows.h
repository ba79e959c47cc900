#pragma once
// What `tern eval --data` measures: the windows of a text, by the convention asked for.

#include <cstdint>
#include <string>
#include <vector>

#include "eval/perplexity.h"

namespace tern {

class Options;
class Tokenizer;
struct ModelDescription;

struct EvalWindows {
  std::vector<Window> windows;
  std::vector<std::vector<uint8_t>> masks;  // empty: everything is scored
  PerplexityReport report;                  // what is known before a model runs
};
/// Errors  usage, bad_file, does_not_fit: flags that do not belong together, no window to score, windows that take more
///         than the memory.
EvalWindows eval_windows(const Options&, const ModelDescription&);

/// What stands before the first token by --bos, -1 for nothing; `rule` says it in words.
/// Before a question: BOS if the tokenizer adds one (auto), always, never.
int32_t bos_in_front(const Options&, const Tokenizer&, std::string& rule);
/// Before a text, so that its first token is scored too: under auto BOS, whether the tokenizer adds it or not, or, if there
/// is no BOS, EOS, which separates documents in training.
int32_t text_prefix(const Options&, const Tokenizer&, std::string& rule);

}  // namespace tern
