#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tern {
namespace {

void check_windows(const ModelSpec& spec, const std::vector<Window>& windows, int64_t longest) {
  for (const Window& w : windows)
    for (const int32_t token : w.tokens)
      if (token < 0 || token >= spec.vocab)
        throw Error(
            ErrorKind::usage,
            "eval: token {} is outside the model's vocabulary of {}; was the text tokenized with another tokenizer?",
            token, spec.vocab);
  if (spec.embed().positions > 0 && longest > spec.embed().positions)
    throw Error(ErrorKind::usage,
                "eval: a window of {} tokens, the model has {} learned positions; use --window {} or less", longest,
                spec.embed().positions, spec.embed().positions);
}

}  // namespace

std::vector<double> window_losses(const ModelSpec& spec, const ModelWeights& weights,
                                  const std::vector<Window>& windows, int64_t batch, Arena& arena,
                                  const std::function<bool(int64_t)>& on_window) {
  return window_losses(spec, weights, windows, {}, batch, arena, on_window);
}

std::vector<double> window_losses(const ModelSpec& spec, const ModelWeights& weights,
                                  const std::vector<Window>& windows, const std::vector<std::vector<uint8_t>>& masks,
                                  int64_t batch, Arena& arena, const std::function<bool(int64_t)>& on_window) {
  TERN_CHECK(batch >= 1 && (masks.empty() || masks.size() == windows.size()), "window_losses: batch {}, {} masks",
             batch, masks.size());
  int64_t longest = 1;
  for (const Window& w : windows) longest = std::max(longest, static_cast<int64_t>(w.tokens.size()) - 1);
  check_windows(spec, windows, longest);
  const RopeTable rope = spec.rope.kind == RopeKind::none ? RopeTable{} : rope_table(spec.rope, longest, longest);
  const Compute compute{arena, Multiply::exact};

  std::vector<double> losses;
  for (size_t first = 0; first < windows.size(); first += static_cast<size_t>(batch)) {
    const size_t end = std::min(windows.size(), first + static_cast<size_t>(batch));
    std::vector<int32_t> tokens, targets;
    std::vector<int64_t> starts = {0};
    for (size_t w = first; w < end; ++w) {
      const Window& window = windows[w];
      const auto n = static_cast<int64_t>(window.tokens.size());
      for (int64_t i = 0; i + 1 < n; ++i) {
        const auto next = static_cast<size_t>(i + 1);
        const bool scored = i + 1 >= window.first_scored && (masks.empty() || masks[w][next] != 0);
        tokens.push_back(window.tokens[static_cast<size_t>(i)]);
        targets.push_back(scored ? window.tokens[next] : -1);
      }
      starts.push_back(static_cast<int64_t>(tokens.size()));
    }
    const Rows rows = make_rows(tokens, starts, spec.rope.kind == RopeKind::none ? nullptr : &rope);
    const Tensor hidden = model_forward(spec, weights, rows, nullptr, compute);
    const std::vector<double> row_losses = head_losses(spec, weights, hidden, targets, compute);
    for (size_t w = first; w < end; ++w) {
      double sum = 0;
      for (int64_t r = starts[w - first]; r < starts[w - first + 1]; ++r) sum += row_losses[static_cast<size_t>(r)];
      losses.push_back(sum);
    }
    if (on_window && !on_window(static_cast<int64_t>(end)))
      throw Error(ErrorKind::interrupted, "eval: stopped on request after {} of {} windows; nothing was written", end,
                  windows.size());
  }
  return losses;
}

void derive_figures(PerplexityReport& report, const std::vector<Window>& windows, const std::vector<double>& losses) {
  TERN_CHECK(windows.size() == losses.size() && !windows.empty(), "derive_figures: {} windows, {} losses",
             windows.size(), losses.size());
  report.num_windows = static_cast<int64_t>(windows.size());
  report.sum_loss = 0;
  double sum_of_means = 0;
  int64_t scored = 0;
  for (size_t w = 0; w < windows.size(); ++w) {
    report.sum_loss += losses[w];
    sum_of_means += losses[w] / static_cast<double>(windows[w].num_scored());
    scored += windows[w].num_scored();
  }
  if (report.num_scored == 0) report.num_scored = scored;  // a mask scores fewer: the caller has counted
  const double mean = report.convention == "gptq" ? sum_of_means / static_cast<double>(windows.size())
                                                  : report.sum_loss / static_cast<double>(report.num_scored);
  report.perplexity = std::exp(mean);
  if (report.num_words > 0) report.word_perplexity = std::exp(report.sum_loss / static_cast<double>(report.num_words));
  if (report.num_bytes > 0) {
    report.byte_perplexity = std::exp(report.sum_loss / static_cast<double>(report.num_bytes));
    report.bits_per_byte = report.sum_loss / (static_cast<double>(report.num_bytes) * std::log(2.0));
  }
}

}  // namespace tern
