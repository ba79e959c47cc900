#include "base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "base/units.h"
#include "base/utf8.h"

namespace tern {
namespace {

std::atomic<int> open_line_fd = -1;  // the terminal that shows an unfinished line

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n <= 0) return;  // a closed terminal must not end the work
    text.remove_prefix(static_cast<size_t>(n));
  }
}

bool is_dumb() {
  const char* term = std::getenv("TERM");
  return term == nullptr || *term == '\0' || std::string_view(term) == "dumb";
}

size_t terminal_width(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string cut(const std::string& text, size_t width) {
  size_t at = 0;
  for (size_t count = 0; at < text.size() && count < width; ++count)
    at += static_cast<size_t>(decode_utf8(std::string_view(text).substr(at)).num_bytes);
  return text.substr(0, at);
}

}  // namespace

Progress::Progress(std::string title, int64_t total, Clock& clock, ProgressOptions options, std::string unit)
    : title_(std::move(title)),
      unit_(std::move(unit)),
      total_(total),
      clock_(clock),
      options_(options),
      begin_ns_(clock.now_ns()) {
  is_terminal_ = options.terminal == ProgressOptions::Terminal::detect
                     ? ::isatty(options.fd) == 1 && !is_dumb()
                     : options.terminal == ProgressOptions::Terminal::yes;
}

Progress::~Progress() {
  if (!finished_ && is_terminal_ && shown_ns_ >= 0) {
    write_all(options_.fd, "\n");
    open_line_fd = -1;
  }
}

double Progress::seconds_left(int64_t done) const {
  const double elapsed_s = seconds_between(begin_ns_, clock_.now_ns());
  if (done <= start_ || total_ <= 0 || elapsed_s <= 0) return -1;
  return elapsed_s / static_cast<double>(done - start_) * static_cast<double>(std::max<int64_t>(0, total_ - done));
}

std::string Progress::line(int64_t done, const std::string& words) const {
  std::string text = title_;
  if (total_ > 0)
    text += fmt::format("  {}/{}{}{}  {}%", done, total_, unit_.empty() ? "" : " ", unit_,
                        std::clamp<int64_t>(100 * done / total_, 0, 100));
  else
    text += fmt::format("  {}{}{}", done, unit_.empty() ? "" : " ", unit_);
  if (!words.empty()) text += "  " + words;
  if (const double left = seconds_left(done); left >= 0 && done < total_) text += "  left " + format_seconds(left);
  return text;
}

void Progress::update(int64_t done, const std::string& words) {
  done_ = done;
  const int64_t now = clock_.now_ns();
  const double interval = is_terminal_ ? options_.terminal_interval_s : options_.plain_interval_s;
  if (shown_ns_ >= 0 && seconds_between(shown_ns_, now) < interval) return;
  shown_ns_ = now;
  show(line(done, words), false);
}

void Progress::finish(const std::string& words) {
  if (finished_) return;
  finished_ = true;
  show(line(done_, words) + "  in " + format_seconds(seconds_between(begin_ns_, clock_.now_ns())), true);
}

void Progress::show(const std::string& text, bool last) {
  if (!is_terminal_) return write_all(options_.fd, text + "\n");
  write_all(options_.fd, "\r\x1b[K" + cut(text, terminal_width(options_.fd) - 1) + (last ? "\n" : ""));
  open_line_fd = last ? -1 : options_.fd;
}

void clear_progress_line() {
  const int fd = open_line_fd.exchange(-1);
  if (fd >= 0) write_all(fd, "\r\x1b[K");
}

}  // namespace tern
