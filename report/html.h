#pragma once
// One HTML page in one file: styles and pictures inline, no script, nothing fetched from a network.

#include <string>
#include <string_view>

#include "report/table.h"

namespace tern {

/// The text with & < > " ' as entities and control characters that HTML forbids as U+FFFD.
std::string html_escape(std::string_view text);

/// A page that is built from top to bottom. Every text is escaped; only svg() takes markup.
class HtmlPage {
 public:
  HtmlPage(std::string_view title, std::string_view language = "en");
  void read_again_every(int seconds);  // makes the browser reload the page
  void heading(std::string_view text);
  void paragraph(std::string_view text);
  void preformatted(std::string_view text);
  void table(const Table& table);
  void svg(std::string_view markup, std::string_view caption);
  std::string str() const;

 private:
  std::string head_, body_;
};

}  // namespace tern
