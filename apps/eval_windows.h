#pragma once
// The windows of a text that `tern eval --data` scores, by the convention that the options name.

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
  std::vector<std::vector<uint8_t>> masks;  // as for window_losses; empty: no token is masked
  PerplexityReport report;                  // filled in as far as it is known before a model runs
};
/// Reads the text and makes its windows.
/// Errors  usage, bad_file, does_not_fit: options that do not go together, no window to score, windows that take more memory than there is.
EvalWindows eval_windows(const Options&, const ModelDescription&);
/// The token that --bos puts in front of a question: BOS always, never, or (auto) if the tokenizer adds one. −1: none. Sets `rule` to words for it.
int32_t bos_in_front(const Options&, const Tokenizer&, std::string& rule);
/// The token that --bos puts in front of a text, so that the text's first token is scored too. Under auto it is BOS, whether the tokenizer
/// adds one or not; if there is no BOS, it is EOS, which separates documents in training. −1: none. Sets `rule` to words for it.
int32_t text_prefix(const Options&, const Tokenizer&, std::string& rule);

}  // namespace tern
