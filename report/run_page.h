#pragma once
// A page about one run: curves, figures, settings. While the run goes on, it rewrites the page, and a browser that shows the
// page reloads it by itself.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/run_log.h"

namespace tern {

/// What the page shows apart from the log.
struct RunState {
  std::string title;                  // such as the run's directory
  bool runs = false;                  // the run goes on, so the browser reloads the page every kPageSeconds
  int64_t step = 0, total_steps = 0;  // steps that are done, and steps that were asked for
  std::optional<double> seconds_left;
  std::vector<std::pair<std::string, std::string>> facts;  // further rows of the first table: name, value
  std::string settings;                                    // the text of recipe.toml
};

/// Seconds between two rewrites of a page, and between two reloads by the browser.
inline constexpr int kPageSeconds = 10;
/// The most points drawn of a curve. Of a longer curve every k-th point is drawn, and the caption says so.
inline constexpr size_t kPagePoints = 1000;

/// The page. Losses share a plot; every other tag of the log has a plot of its own.
std::string run_page(const RunLog&, const RunState&);

}  // namespace tern
