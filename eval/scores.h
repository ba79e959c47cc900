#pragma once
// The figures that people quote, from log-likelihoods, written answers and logits. Pure functions, without a model.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// A mean and its standard error s/√n, where s divides by n − 1. Of fewer than two values the error is 0.
struct MeanFigure {
  double mean = 0, standard_error = 0;
  int64_t count = 0;
};
MeanFigure mean_of(std::span<const double> values);

/// What a choice scored.
struct ChoiceScore {
  double log_likelihood = 0;  // in nats, of all tokens of the choice after its prompt
  int64_t tokens = 0, bytes = 0, characters = 0;
};
/// The index of the choice that each rule takes; of equals the first.
/// Source  lm-evaluation-harness: `acc` takes the largest sum, `acc_norm` the largest sum per character, `acc_bytes`
///         per byte of UTF-8. Per token is ours.
struct ChoicePick {
  int64_t sum = 0, per_token = 0, per_byte = 0, per_character = 0;
};
ChoicePick pick_choices(std::span<const ChoiceScore>);

/// How a written answer is compared.
struct MatchRule {
  bool ignore_case = false, ignore_punctuation = false;
};
/// Whether the text is one of the answers; white space around both does not count. Case and punctuation (ASCII) are treated as in
/// lm-evaluation-harness' exact_match.
bool exact_match(std::string_view text, std::span<const std::string> answers, const MatchRule&);

/// The predictions of two models for one token of a text, in nats.
struct RowDifference {
  double kl = 0;                        // Σ p·(log p − log q), with p the reference's
  bool same_top = false;                // whether the likeliest token (of equals the lowest id) is the same
  double loss = 0, reference_loss = 0;  // −log of the target's probability
};
/// Compares two rows of logits, in doubles. Errors: TERN_CHECK: the rows differ in length.
RowDifference compare_logits(std::span<const float> reference, std::span<const float> logits, int32_t target);

}  // namespace tern
