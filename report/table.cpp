#include "report/table.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "report/html.h"

namespace tern {
namespace {

void check_shape(const Table& table) {
  TERN_CHECK(!table.columns.empty(), "table: no columns");
  for (const auto& row : table.rows)
    TERN_CHECK(row.size() == table.columns.size(), "table: a row of {} cells under {} columns", row.size(),
               table.columns.size());
}

std::vector<size_t> column_widths(const Table& table, size_t least) {
  std::vector<size_t> widths;
  for (const Column& column : table.columns) widths.push_back(std::max(display_width(column.title), least));
  for (const auto& row : table.rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  return widths;
}

std::string padded(std::string_view cell, size_t to, Align align) {
  const std::string space(to - std::min(to, display_width(cell)), ' ');
  return align == Align::right ? space + std::string(cell) : std::string(cell) + space;
}

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string markdown_cell(std::string_view cell) {
  std::string out;
  for (const char c : cell) {
    if (c == '|' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string csv_cell(std::string_view cell) {
  if (cell.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(cell);
  std::string out = "\"";
  for (const char c : cell) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace

std::string table_text(const Table& table) {
  check_shape(table);
  const std::vector<size_t> widths = column_widths(table, 1);
  const auto line = [&](auto cell_of) {
    std::string out;
    for (size_t c = 0; c < widths.size(); ++c)
      out += (c ? "  " : "") + padded(cell_of(c), widths[c], table.columns[c].align);
    return without_trailing_spaces(std::move(out)) + "\n";
  };
  std::string out = line([&](size_t c) { return table.columns[c].title; });
  out += line([&](size_t c) { return std::string(widths[c], '-'); });
  for (const auto& row : table.rows) out += line([&](size_t c) { return row[c]; });
  return out;
}

std::string table_markdown(const Table& table) {
  check_shape(table);
  Table escaped = table;
  for (Column& column : escaped.columns) column.title = markdown_cell(column.title);
  for (auto& row : escaped.rows)
    for (std::string& cell : row) cell = markdown_cell(cell);
  const std::vector<size_t> widths = column_widths(escaped, 3);
  const auto line = [&](auto cell_of) {
    std::string out = "|";
    for (size_t c = 0; c < widths.size(); ++c)
      out += " " + padded(cell_of(c), widths[c], table.columns[c].align) + " |";
    return out + "\n";
  };
  std::string out = line([&](size_t c) { return escaped.columns[c].title; });
  out += line([&](size_t c) {
    const bool right = table.columns[c].align == Align::right;
    return std::string(widths[c] - (right ? 1 : 0), '-') + (right ? ":" : "");
  });
  for (const auto& row : escaped.rows) out += line([&](size_t c) { return row[c]; });
  return out;
}

std::string table_csv(const Table& table) {
  check_shape(table);
  std::string out;
  for (size_t c = 0; c < table.columns.size(); ++c) out += (c ? "," : "") + csv_cell(table.columns[c].title);
  out += "\r\n";
  for (const auto& row : table.rows) {
    for (size_t c = 0; c < row.size(); ++c) out += (c ? "," : "") + csv_cell(row[c]);
    out += "\r\n";
  }
  return out;
}

std::string table_html(const Table& table) {
  check_shape(table);
  const auto cell = [&](const char* tag, size_t c, std::string_view text) {
    const char* align = table.columns[c].align == Align::right ? " class=\"right\"" : "";
    return std::string("<") + tag + align + ">" + html_escape(text) + "</" + tag + ">";
  };
  std::string out = "<table>\n<thead><tr>";
  for (size_t c = 0; c < table.columns.size(); ++c) out += cell("th", c, table.columns[c].title);
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (size_t c = 0; c < row.size(); ++c) out += cell("td", c, row[c]);
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table>\n";
}

}  // namespace tern
