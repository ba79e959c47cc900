#pragma once
// The report of `tern demo`: as text, as JSON, as one HTML page.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/metrics_log.h"

namespace tern {

struct DemoFacts {
  // the text
  std::string source = {}, how_held_out = {};
  int64_t text_bytes = 0, overstrikes = 0, train_bytes = 0, held_out_bytes = 0;
  // the model and its training
  int64_t vocab_size = 0, parameters = 0, steps = 0, tokens_per_step = 0;
  int64_t killed_at_step = 0;  // the last step that the killed process logged; 0: it ended before it could be killed
  int64_t resumed_from_step = 0;
  std::vector<MetricRow> before = {}, after = {};  // the log as the killed process left it; the log in the end
  double tokens_per_s = 0;
  // the result
  double bits_per_byte = 0, perplexity = 0;
  std::optional<double> xz_bits_per_byte = {};                    // of the whole text; absent: xz is not installed
  std::vector<std::pair<std::string, std::string>> samples = {};  // prompt, continuation
  // for those who want to repeat it
  std::string machine = {};
  std::vector<std::pair<std::string, double>> stage_seconds = {};
  std::vector<std::string> commands = {};
};

/// The log rows of steps that both processes trained, as they lie after the checkpoint and before the kill.
struct Repeated {
  int64_t rows = 0;   // how many there are
  int64_t equal = 0;  // in how many of them loss and gradient norm have the same bits
};
Repeated repeated_rows(const DemoFacts& facts);

/// A table of the loss at a few steps.
std::string loss_table(const std::vector<MetricRow>& rows);
std::string demo_summary(const DemoFacts& facts);
std::string demo_json(const DemoFacts& facts, const std::string& report_path);
std::string demo_html(const DemoFacts& facts);

}  // namespace tern
