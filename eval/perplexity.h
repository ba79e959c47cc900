#pragma once
// The figures of an evaluation of text: perplexities and bits per byte, with every denominator.

#include <cstdint>
#include <string>
#include <vector>

#include "eval/windows.h"

namespace tern {

/// What a reader needs to judge whether two evaluations can be compared.
struct PerplexityReport {
  std::string convention, bos_rule;
  int64_t window = 0, stride = 0;  // in tokens
  int64_t num_windows = 0, num_tokens = 0, num_scored = 0, num_pages = 0;
  int64_t num_words = 0;                                               // of the convention harness alone; 0: not known
  int64_t num_bytes = 0;                                               // 0: not known
  double sum_loss = 0;                                                 // nats over all scored tokens
  double perplexity = 0;                                               // per token, as the convention takes its mean
  double word_perplexity = 0, byte_perplexity = 0, bits_per_byte = 0;  // 0: there is no such figure here
};
/// Fills in the sums and derived figures from the windows' losses, in nats. perplexity is exp(sum_loss / num_scored); under the convention
/// gptq it is exp of the mean of the windows' means. Errors: TERN_CHECK: another number of losses than of windows, or none.
void derive_figures(PerplexityReport&, const std::vector<Window>&, const std::vector<double>& losses);

}  // namespace tern
