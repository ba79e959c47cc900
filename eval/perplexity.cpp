#include "eval/perplexity.h"

#include <cmath>

#include "base/error.h"

namespace tern {

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
