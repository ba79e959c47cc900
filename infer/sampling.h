#pragma once
// From logits to a token: penalties, temperature, filters, draw. The random number of a draw is a pure function of (seed, sequence, position), so
// batching never changes a sample.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tern {

struct SamplingOptions {
  double temperature = 0.0;                                 // 0: greedy; the highest logit, the lowest id among equals
  int64_t top_k = 0;                                        // 0: off
  double top_p = 1.0;                                       // 1: off
  double min_p = 0.0;                                       // 0: off
  double repetition_penalty = 1.0;                          // 1: off; over prompt and generated tokens
  double presence_penalty = 0.0;                            // over generated tokens
  double frequency_penalty = 0.0;                           // over generated tokens
  std::vector<std::pair<int32_t, double>> logit_bias = {};  // ids of the vocabulary, and what is added to their logits
  uint64_t seed = 0;
};
/// Errors: usage, naming the flag and its range.
void check_sampling(const SamplingOptions&);

/// Whether a penalty or a bias changes a logit.
bool has_penalties(const SamplingOptions&);

/// Applies penalties to the logits, in this order. `history`: the tokens of the prompt and the generated ones, which are its last
/// `num_generated`.
/// repetition_penalty p: a logit above 0 is divided by p, another is multiplied by p, once for each distinct token of the history (Keskar et
///                       al. 2019, arXiv:1909.05858; as transformers)
/// presence, frequency:  logit −= presence + count·frequency for each distinct generated token (OpenAI's definition)
/// logit_bias:           is added
void apply_penalties(const SamplingOptions&, std::span<const int32_t> history, int64_t num_generated,
                     std::span<float> logits);

/// The tokens that may be drawn with their probabilities, by id. It filters in the order of transformers: temperature, top-k (tokens equal to
/// the k-th stay), top-p (the smallest set of most probable tokens whose sum reaches top_p; at least one), min-p (probability ≥ min_p·max).
/// Probabilities are doubles, which are renormalised after each filter. Temperature must be > 0.
std::vector<std::pair<int32_t, double>> candidates(const SamplingOptions&, std::span<const float> logits);

/// Draws one token by the random number of (seed, sequence, position). It changes the logits (penalties). Errors: NotFinite: a logit is NaN or
/// +inf, or none is finite.
int32_t sample_token(const SamplingOptions&, std::span<const int32_t> history, int64_t num_generated, uint64_t sequence,
                     uint64_t position, std::span<float> logits);

/// The tokens among which a guess was drawn, with their probabilities, by id.
using Odds = std::vector<std::pair<int32_t, double>>;
struct DrawnGuess {
  int32_t token = 0;
  Odds odds;  // empty: the draw was greedy
};
/// Draws a guess as sample_token draws a token, but by another random number than any token.
DrawnGuess draw_guess(const SamplingOptions&, std::span<const int32_t> history, int64_t num_generated,
                      uint64_t sequence, uint64_t position, std::span<float> logits);
/// Rejection sampling, with p the candidates' probabilities and q the odds of the guess: returns the guess with probability min(1, p/q), else a
/// token drawn from max(0, p − q). Whatever q is, the result has the distribution p of sample_token. It depends on the guess, so with other
/// guesses the same seed gives another text. Greedy draws are those of sample_token. Errors: as there.
/// Source  Leviathan et al. 2023, arXiv:2211.17192, algorithm 1 (recalled).
int32_t accept_or_draw(const SamplingOptions&, std::span<const int32_t> history, int64_t num_generated,
                       uint64_t sequence, uint64_t position, int32_t guess, const Odds&, std::span<float> logits);

/// The `count` likeliest tokens, each with its log_probability. The likeliest comes first; of equals the lowest id.
std::vector<std::pair<int32_t, double>> likeliest(std::span<const float> logits, int64_t count);

/// log softmax(logits)[token], as the kernel of the loss computes it in f32. It is within 1e-6·max(1, |result|) of the result in doubles.
double log_probability(std::span<const float> logits, int32_t token);

}  // namespace tern
