#pragma once
// From log-likelihoods and logits to the figures people quote: pure functions, no model.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// A mean and its standard error, s/√n with s over n - 1. Fewer than two values have no error: 0.
struct MeanFigure {
  double mean = 0, standard_error = 0;
  int64_t count = 0;
};
MeanFigure mean_of(std::span<const double> values);

struct ChoiceScore {
  double log_likelihood = 0;  // nats, of all tokens of the choice after its prompt
  int64_t tokens = 0, bytes = 0, characters = 0;
};
/// Which choice each rule takes; of equals the first.
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
/// Whether the text is one of the answers, white space around both aside. Case and punctuation (ASCII) as
/// lm-evaluation-harness' exact_match treats them.
bool exact_match(std::string_view text, std::span<const std::string> answers, const MatchRule&);

/// Two models at one place of a text.
struct RowDifference {
  double kl = 0;                        // Σ p·(log p - log q), p of the reference, nats
  bool same_top = false;                // the likeliest token (of equals the lowest id) is the same
  double loss = 0, reference_loss = 0;  // -log of the target
};
/// In doubles. Errors: TERN_CHECK if the rows differ in length.
RowDifference compare_logits(std::span<const float> reference, std::span<const float> logits, int32_t target);

}  // namespace tern
