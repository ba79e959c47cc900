#include "planner/words/columns.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace tern {
namespace {

constexpr size_t kLabel = 11;     // columns of labelled()'s label
constexpr size_t kWrapped = 120;  // columns of labelled()'s lines
constexpr size_t kRoomy = 60;     // from here on texts stand right of their labels
constexpr size_t kContinued = 4;  // indent of what goes on, of a table's row

size_t blanks_before(std::string_view line) { return std::min(line.find_first_not_of(' '), line.size()); }

// Right of a label, or of none; no row of a table, whose cells two blanks keep apart.
bool is_labelled(std::string_view line) {
  if (line.size() <= kLabel || line[kLabel - 1] != ' ' || line[kLabel] == ' ') return false;
  if (line.find("  ", kLabel) != std::string_view::npos) return false;
  const std::string_view label = line.substr(0, kLabel), word = trim(label);
  if (word.empty()) return true;
  return label.front() != ' ' && word.find("  ") == std::string_view::npos;
}

// labelled() broke the line before it here: its first word had no room there.
bool goes_on(std::string_view before, std::string_view line) {
  if (!is_labelled(before) || blanks_before(line) != kLabel || line.size() == kLabel) return false;
  const std::string_view text = line.substr(kLabel);
  return display_width(before) + 1 + display_width(text.substr(0, text.find(' '))) > kWrapped;
}

// Parts of a line that two blanks or more keep apart.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  for (size_t at = blanks_before(line); at < line.size();) {
    const size_t end = std::min(line.find("  ", at), line.size());
    cells.emplace_back(line.substr(at, end - at));
    at = std::min(line.find_first_not_of(' ', end), line.size());
  }
  return cells;
}

// A cell that is too wide itself is broken at its blanks.
std::string break_row(std::string_view line, size_t columns) {
  const size_t first = blanks_before(line), indent = std::min(first + kContinued, columns / 4);
  std::string out, now(std::min(first, columns / 4), ' ');
  bool empty = true;
  const auto end_line = [&] {
    out += now + "\n";
    now.assign(indent, ' '), empty = true;
  };
  for (const std::string& cell : cells_of(line)) {
    if (!empty && display_width(now) + 2 + display_width(cell) > columns) end_line();
    if (!empty) now += "  ";
    const std::vector<std::string> pieces = wrap_text(cell, columns - std::max(display_width(now), indent));
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0) end_line();
      now += pieces[i], empty = false;
    }
  }
  return out + now + "\n";
}

std::string break_paragraph(std::string_view line, size_t columns) {
  const std::string label(trim(line.substr(0, kLabel)));
  const std::string_view text = line.substr(kLabel);
  std::string out;
  if (columns >= kRoomy) {
    for (const std::string& piece : wrap_text(text, columns - kLabel)) {
      const std::string word = out.empty() ? label : "";
      out += word + std::string(kLabel - display_width(word), ' ') + piece + "\n";
    }
    return out;
  }
  const std::string whole = label.empty() ? "" : label + ": ";
  for (const std::string& piece : wrap_text(whole + std::string(text), columns - 2))
    out += std::string(out.empty() && !label.empty() ? 0 : 2, ' ') + piece + "\n";
  return out;
}

}  // namespace

std::string fit_columns(std::string_view text, size_t columns) {
  if (columns < 8) return std::string(text);
  std::string out;
  const std::vector<std::string_view> lines = split(text, '\n');
  for (size_t i = 0, end; i < lines.size(); i = end) {
    end = i + 1;
    if (end == lines.size() && lines[i].empty()) break;  // the text ended with a line's end
    std::string whole(lines[i]);
    size_t widest = display_width(lines[i]);
    for (; end < lines.size() && goes_on(lines[end - 1], lines[end]); ++end) {
      whole += " " + std::string(trim(lines[end]));
      widest = std::max(widest, display_width(lines[end]));
    }
    const bool labelled = is_labelled(whole);
    if (widest <= columns && !(labelled && columns < kRoomy))
      for (size_t k = i; k < end; ++k) out += std::string(lines[k]) + "\n";
    else
      out += labelled ? break_paragraph(whole, columns) : break_row(whole, columns);
  }
  return out;
}

}  // namespace tern
