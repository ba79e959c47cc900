#include "formats/jinja/marked_text.h"

#include <algorithm>
#include <utility>

namespace tern {

MarkedText::MarkedText(std::string text, uint8_t marks) : bytes(std::move(text)) {
  if (marks != 0 && !bytes.empty()) runs.push_back({bytes.size(), marks});
}

uint8_t MarkedText::marks_at(size_t i) const {
  const auto run = std::upper_bound(runs.begin(), runs.end(), i, [](size_t at, const Run& r) { return at < r.end; });
  return run == runs.end() ? 0 : run->marks;
}

void MarkedText::append(std::string_view text, uint8_t marks) {
  if (text.empty()) return;
  if (runs.empty() && marks != 0 && !bytes.empty()) runs.push_back({bytes.size(), 0});
  bytes += text;
  if (!runs.empty() && runs.back().marks == marks) {
    runs.back().end = bytes.size();
  } else if (!runs.empty() || marks != 0) {
    runs.push_back({bytes.size(), marks});
  }
}

void MarkedText::append(const MarkedText& text, size_t begin, size_t end) {
  if (text.runs.empty()) return append(std::string_view(text.bytes).substr(begin, end - begin));
  auto run =
      std::upper_bound(text.runs.begin(), text.runs.end(), begin, [](size_t at, const Run& r) { return at < r.end; });
  for (; begin < end; ++run) {
    const size_t stop = std::min(end, run->end);
    append(std::string_view(text.bytes).substr(begin, stop - begin), run->marks);
    begin = stop;
  }
}

MarkedText MarkedText::slice(size_t begin, size_t end) const {
  MarkedText part;
  part.append(*this, begin, end);
  return part;
}

void MarkedText::add_marks(uint8_t marks) {
  if (bytes.empty()) return;
  if (runs.empty()) runs.push_back({bytes.size(), 0});
  std::vector<Run> merged;
  for (Run run : runs) {
    run.marks |= marks;
    if (!merged.empty() && merged.back().marks == run.marks) {
      merged.back().end = run.end;
    } else {
      merged.push_back(run);
    }
  }
  runs = std::move(merged);
}

std::vector<TextSpan> MarkedText::spans(uint8_t marks) const {
  std::vector<TextSpan> found;
  size_t begin = 0;
  for (const Run& run : runs) {
    if ((run.marks & marks) == marks) {
      if (!found.empty() && found.back().end == begin) {
        found.back().end = run.end;
      } else {
        found.push_back({begin, run.end});
      }
    }
    begin = run.end;
  }
  return found;
}

}  // namespace tern
