#pragma once
// A page about one run: curves, figures, settings. The run writes the page anew while it goes on, and a browser that
// shows it loads it again by itself.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/run_log.h"

namespace tern {

/// What the page says beside the log.
struct RunState {
  std::string title;                  // such as the run's directory
  bool runs = false;                  // the run goes on, so the page asks to be loaded again every kPageSeconds
  int64_t step = 0, total_steps = 0;  // steps that are done, and that are asked for
  std::optional<double> seconds_left;
  std::vector<std::pair<std::string, std::string>> facts;  // further rows of the first table: name, value
  std::string settings;                                    // text; recipe.toml
};

/// Seconds between two writings of a page, and between two readings.
inline constexpr int kPageSeconds = 10;
/// Points drawn of a curve at most; of longer ones every k-th is drawn, which the caption says.
inline constexpr size_t kPagePoints = 1000;

/// The page. Losses share a plot; every other tag of the log has a plot of its own.
std::string run_page(const RunLog&, const RunState&);

}  // namespace tern
