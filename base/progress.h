#pragma once
// Progress: on a terminal one line that rewrites itself; elsewhere one plain line per interval. Standard error only.

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace tern {

struct ProgressOptions {
  int fd = 2;
  double terminal_interval_s = 0.1;  // the least time between two rewrites
  double plain_interval_s = 10;      // between two lines where there is no terminal
  enum class Terminal { detect, yes, no } terminal = Terminal::detect;
};

/// "train  120/600  20%  loss 3.21 … 12.3k tok/s  left 4m05s". The caller gives the words after the percentage, and a unit
/// for the count: "eval  8/210 windows  3%".
class Progress {
 public:
  Progress(std::string title, int64_t total, Clock& = real_clock(), ProgressOptions = {}, std::string unit = "");
  ~Progress();  // ends the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done`: how much of `total` is done. Shown at the first call, and again whenever the interval has passed since it was last shown.
  /// set_start: the count at which a resumed run began.
  void update(int64_t done, const std::string& words = "");
  void set_start(int64_t start) { start_ = start; }
  /// Shows the last state and ends the line.
  void finish(const std::string& words = "");
  /// Estimated seconds left; negative while unknown.
  double seconds_left(int64_t done) const;

 private:
  std::string line(int64_t done, const std::string& words) const;
  void show(const std::string& text, bool last);
  std::string title_, unit_;
  int64_t total_, start_ = 0, done_ = 0;
  Clock& clock_;
  ProgressOptions options_;
  bool is_terminal_ = false, finished_ = false;
  int64_t begin_ns_, shown_ns_ = -1;
};

/// Wipes an unfinished terminal line so that another message may be written; the next update draws it again.
void clear_progress_line();

}  // namespace tern
