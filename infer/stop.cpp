#include "infer/stop.h"

#include <algorithm>

namespace tern {

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) { std::erase(stops_, std::string()); }

std::string StopFilter::push(std::string_view text) {
  if (stopped()) return "";
  held_ += text;
  // The stop string that is complete first, so that the cut does not depend on how the text came in pieces; of two that
  // end together, the longer.
  size_t first = std::string::npos, first_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const size_t end = at + stop.size();
    if (end > first_end || (end == first_end && at >= first)) continue;
    first = at;
    first_end = end;
    matched_ = stop;
  }
  if (first != std::string::npos) {
    const std::string before = held_.substr(0, first);
    held_.clear();
    return before;
  }
  size_t keep = 0;  // the longest tail of held_ that begins a stop string
  for (const std::string& stop : stops_)
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length)
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) keep = length;
  std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopFilter::finish() {
  std::string rest;
  rest.swap(held_);
  return rest;
}

}  // namespace tern
