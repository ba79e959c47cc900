#pragma once
// One run as a page that its run writes again while it goes on: curves, figures, settings. A browser that shows it reads it again by
// itself.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/run_log.h"

namespace tern {

struct RunState {
  std::string title;                  // such as the run's directory
  bool runs = false;                  // it goes on: the page asks to be read again every kPageSeconds
  int64_t step = 0, total_steps = 0;  // done, wished
  std::optional<double> seconds_left;
  std::vector<std::pair<std::string, std::string>> facts;  // further rows of the first table: name, value
  std::string settings;                                    // text; recipe.toml
};

/// Seconds between two writings of a page, and between two readings.
inline constexpr int kPageSeconds = 10;
/// Points drawn of a curve at most; of longer ones every k-th is drawn, which the caption says.
inline constexpr size_t kPagePoints = 1000;

/// Losses together, every other tag of the log by itself.
std::string run_page(const RunLog&, const RunState&);

}  // namespace tern
