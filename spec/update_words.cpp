#include "spec/update_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace tern {
namespace {

constexpr int64_t kSide = 4096;

std::string bytes_each(const UpdateConfig& config, const ParameterForm& form) {
  return fmt::format("{:.4g}",
                     static_cast<double>(state_bytes(config, DType::f32, form)) / static_cast<double>(form.elements()));
}

std::string options_line(UpdateRule rule) {
  const UpdateRuleRow& row = row_of(rule);
  std::string text;
  for (const RuleOption& o : row.options)
    text += fmt::format("{}--{} {}", text.empty() ? "" : ", ", o.name, o.fallback);
  if (!row.clip.empty()) text += fmt::format("{}--clip {}", text.empty() ? "" : ", ", row.clip);
  return text;
}

// Of 100 columns.
std::string wrapped(std::string_view text, std::string_view indent) {
  std::string out, line;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > 100) {
      fmt::format_to(std::back_inserter(out), "{}{}\n", indent, line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + std::string(word);
    at = end + 1;
  }
  return out + fmt::format("{}{}\n", indent, line);
}

}  // namespace

std::string flags_of(UpdateRule rule) {
  std::string text;
  for (const RuleOption& o : row_of(rule).options) text += fmt::format("{}--{}", text.empty() ? "" : ", ", o.name);
  return text;
}

std::string_view rate_words(UpdateRule rule) {
  constexpr std::string_view kAsAdamw = "those that suit adamw (3e-4 is the default of --learning-rate)";
  switch (rule) {
    case UpdateRule::adamw:
    case UpdateRule::adamw8bit:
      return "1e-4 (large models) to 1e-3 (small ones); 6e-4 at 125 million parameters, 6e-5 at 175 billion (Brown et "
             "al. 2020, arXiv:2005.14165)";
    case UpdateRule::muon:
      return "those that suit adamw, as the factor 0.2 gives steps their size (Liu et al. 2025, arXiv:2502.16982)";
    case UpdateRule::meqmuon:
      return kAsAdamw;
    case UpdateRule::soap:
      return "those that suit adamw; the authors' README has 3e-3 (Vyas et al. 2024, arXiv:2409.11321)";
    case UpdateRule::sgd:
    case UpdateRule::galore_sgd:
      return "far above adamw's, by the size of gradients: search anew; 0.025 to 0.2 with momentum 0.9 for a small "
             "model (docs/update-studies.md)";
    case UpdateRule::sngm:
      return "the length of a step of the whole model, at most 1/(1 - momentum) times that: search anew; 0.2 to 0.4 "
             "with momentum 0.9 for a small model (docs/update-studies.md)";
    case UpdateRule::lars:
      return "far above adamw's: 1 moves each matrix by --trust, a thousandth, of its own length (You, Gitman & "
             "Ginsburg 2017, arXiv:1708.03888, alg. 1); 1.6 to 6.4 with momentum 0.9 for a small model "
             "(docs/update-studies.md)";
    case UpdateRule::lamb:
      return "several times adamw's, as steps are shares of a matrix's own length: 6e-4 at batches of 512 to 5e-3 at "
             "32,768 (You et al. 2020, arXiv:1904.00962)";
    case UpdateRule::lion:
      return "a third to a tenth of adamw's, with as much more weight decay (Chen et al. 2023, arXiv:2302.06675)";
    case UpdateRule::schedule_free:
      return "1 to 10 times adamw's, with --schedule constant and a warm-up (Defazio et al. 2024, arXiv:2405.15682, "
             "the authors' README)";
    case UpdateRule::adafactor:
      return "relative to the weights: 0.01 moves each parameter by about a hundredth of its size (Shazeer & Stern "
             "2018, arXiv:1804.04235, alg. 5)";
    case UpdateRule::galore_adamw:
    case UpdateRule::galore_adamw8bit:
      return "several times adamw's, 0.005 to 0.01, as --projection-scale 0.25 makes steps shorter (Zhao et al. 2024, "
             "arXiv:2403.03507, the authors' code)";
  }
  return {};
}

bool takes_adamw_rates(UpdateRule rule) {
  using enum UpdateRule;
  return rule == adamw || rule == adamw8bit || rule == muon || rule == meqmuon || rule == soap;
}

std::string_view zeroth_rate_words() {
  return "slopes along random directions want rates far below those of gradients: 1e-7 to 1e-6 for a whole model, "
         "1e-5 to 1e-4 for an adapter with --perturbation 1e-2 (MeZO, Malladi et al. 2023, arXiv:2305.17333)";
}

std::string updates_help() {
  std::string out = fmt::format(
      "Update rules\n\n"
      "tern train --optimizer RULE, with the options that the rule reads and their defaults; others are refused.\n"
      "State: bytes for each parameter of an f32 model, in a matrix of {0} x {0} / a table / a vector. bf16 models\n"
      "keep 4 bytes of f32 weights more. `tern train --dry-run` and `tern plan` price a whole model; formulas and\n"
      "sources are in docs/optimizers.md.\n",
      kSide);
  for (const UpdateRule rule : kUpdateRules) {
    const UpdateConfig config = update_config(rule);
    const std::string state = fmt::format("{} / {} / {}", bytes_each(config, {ParameterKind::matrix, kSide, kSide}),
                                          bytes_each(config, {ParameterKind::table, 8 * kSide, kSide}),
                                          bytes_each(config, {ParameterKind::vector, 1, kSide}));
    out += fmt::format("\n  {}\n", name_of(rule)) + wrapped("reads  " + options_line(rule), "    ") +
           wrapped("state  " + state, "    ") + wrapped(fmt::format("rates  {}", rate_words(rule)), "    ");
  }
  return out + "\n  --gradients zeroth-order, with any of them\n" +
         wrapped(fmt::format("rates  {}", zeroth_rate_words()), "    ");
}

}  // namespace tern
