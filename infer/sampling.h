#pragma once
// From logits to a token: penalties, temperature, filters, draw. The draw is a pure function of (seed, sequence,
// position), so batching never changes a sample.

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
  std::vector<std::pair<int32_t, double>> logit_bias = {};  // id, what is added to its logit; ids inside the vocabulary
  uint64_t seed = 0;
};
/// Errors: usage, naming the flag and its range.
void check_sampling(const SamplingOptions&);

/// Whether a penalty or a bias changes a logit.
bool has_penalties(const SamplingOptions&);

/// Penalties in place. `history`: prompt and generated; the last `num_generated` of it were generated.
/// repetition: logit > 0 → logit/p, else logit·p, once per distinct token (Keskar et al. 2019, arXiv:1909.05858; as
/// transformers). presence, frequency: logit -= presence + count·frequency (OpenAI's definition). Then
/// logit_bias.
void apply_penalties(const SamplingOptions&, std::span<const int32_t> history, int64_t num_generated,
                     std::span<float> logits);

/// Tokens that may be drawn with their probabilities, by id. In the order of transformers: temperature, top-k (ties
/// with the k-th stay), top-p (the smallest set of most probable tokens whose sum reaches top_p; at least one), min-p
/// (probability ≥ min_p·max). Probabilities in doubles, renormalised after each filter. Temperature must be > 0.
std::vector<std::pair<int32_t, double>> candidates(const SamplingOptions&, std::span<const float> logits);

/// One token. `sequence`, `position` key the draw. logits are changed (penalties). Errors: NotFinite if one is NaN or
/// +inf, or none is finite.
int32_t sample_token(const SamplingOptions&, std::span<const int32_t> history, int64_t num_generated, uint64_t sequence,
                     uint64_t position, std::span<float> logits);

/// What a guess was drawn from: tokens with their probabilities, by id.
using Odds = std::vector<std::pair<int32_t, double>>;
struct DrawnGuess {
  int32_t token = 0;
  Odds odds;  // empty: of a greedy draw
};
/// One guess, as sample_token draws a token, but with a random number that no token is drawn by.
DrawnGuess draw_guess(const SamplingOptions&, std::span<const int32_t> history, int64_t num_generated,
                      uint64_t sequence, uint64_t position, std::span<float> logits);
/// Rejection sampling: the guess with probability min(1, p/q), else a token drawn from max(0, p - q). Whatever the odds q are
/// that the guess was drawn from, the result is distributed as sample_token's, p. It depends on the guess,
/// though, so other guesses give other text for the same seed. Greedy draws are sample_token's. Errors: as there.
/// Source  Leviathan et al. 2023, arXiv:2211.17192, algorithm 1 (recalled).
int32_t accept_or_draw(const SamplingOptions&, std::span<const int32_t> history, int64_t num_generated,
                       uint64_t sequence, uint64_t position, int32_t guess, const Odds&, std::span<float> logits);

/// The `count` likeliest tokens with log_probability of each, likeliest first, the lowest id first among equals.
std::vector<std::pair<int32_t, double>> likeliest(std::span<const float> logits, int64_t count);

/// log softmax(logits)[token], as the loss's kernel computes it in f32: within 1e-6 of the result in doubles, relative to it
/// where it is above 1.
double log_probability(std::span<const float> logits, int32_t token);

}  // namespace tern
