#pragma once
// A table of cells, as text for a terminal, Markdown, CSV or HTML.

#include <string>
#include <vector>

namespace tern {

/// Where a cell's text stands in its column.
enum class Align { left, right };

/// A column.
struct Column {
  std::string title;
  Align align = Align::left;
};

/// Cells under titles.
struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // a row has one cell for each column; the functions below check it
};

/// Text with columns padded to their widest cell (in code points), two spaces between them, and a rule under the
/// titles.
std::string table_text(const Table& table);
/// GitHub's Markdown; bars and newlines in cells are escaped.
std::string table_markdown(const Table& table);
/// RFC 4180: comma, CRLF, quotes doubled; cells are quoted where they must be.
std::string table_csv(const Table& table);
/// A <table> of HTML; cells are escaped.
std::string table_html(const Table& table);

}  // namespace tern
