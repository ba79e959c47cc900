#include "eval/scores.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace tern {
namespace {

double log_sum_exp(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - most);
  return most + std::log(sum);
}

std::string folded(std::string_view text, const MatchRule& rule) {
  std::string out(trim(text));
  if (rule.ignore_case) out = lowercase(out);
  if (rule.ignore_punctuation) std::erase_if(out, [](char c) { return std::ispunct(static_cast<unsigned char>(c)); });
  return out;
}

}  // namespace

MeanFigure mean_of(std::span<const double> values) {
  MeanFigure m;
  m.count = static_cast<int64_t>(values.size());
  if (values.empty()) return m;
  const auto n = static_cast<double>(values.size());
  for (const double x : values) m.mean += x / n;
  double squares = 0;
  for (const double x : values) squares += (x - m.mean) * (x - m.mean);
  if (values.size() > 1) m.standard_error = std::sqrt(squares / (n - 1) / n);
  return m;
}

ChoicePick pick_choices(std::span<const ChoiceScore> scores) {
  TERN_CHECK(!scores.empty(), "pick_choices: no choices");
  const auto best = [&](auto&& value) {
    size_t at = 0;
    for (size_t i = 1; i < scores.size(); ++i)
      if (value(scores[i]) > value(scores[at])) at = i;
    return static_cast<int64_t>(at);
  };
  const auto per = [](double sum, int64_t n) { return sum / static_cast<double>(n); };
  return {.sum = best([](const ChoiceScore& s) { return s.log_likelihood; }),
          .per_token = best([&](const ChoiceScore& s) { return per(s.log_likelihood, s.tokens); }),
          .per_byte = best([&](const ChoiceScore& s) { return per(s.log_likelihood, s.bytes); }),
          .per_character = best([&](const ChoiceScore& s) { return per(s.log_likelihood, s.characters); })};
}

bool exact_match(std::string_view text, std::span<const std::string> answers, const MatchRule& rule) {
  const std::string got = folded(text, rule);
  return std::any_of(answers.begin(), answers.end(),
                     [&](const std::string& answer) { return folded(answer, rule) == got; });
}

RowDifference compare_logits(std::span<const float> reference, std::span<const float> logits, int32_t target) {
  TERN_CHECK(reference.size() == logits.size() && target >= 0 && target < static_cast<int32_t>(logits.size()),
             "compare_logits: {} and {} logits, target {}", reference.size(), logits.size(), target);
  const double p_sum = log_sum_exp(reference), q_sum = log_sum_exp(logits);
  RowDifference d;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double log_p = static_cast<double>(reference[i]) - p_sum, log_q = static_cast<double>(logits[i]) - q_sum;
    const double p = std::exp(log_p);
    if (p > 0) d.kl += p * (log_p - log_q);
  }
  const auto top = [](std::span<const float> x) { return std::max_element(x.begin(), x.end()) - x.begin(); };
  d.same_top = top(reference) == top(logits);
  const auto at = static_cast<size_t>(target);
  d.loss = q_sum - static_cast<double>(logits[at]);
  d.reference_loss = p_sum - static_cast<double>(reference[at]);
  return d;
}

}  // namespace tern
