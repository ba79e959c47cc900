#include "report/html.h"

namespace tern {
namespace {

// Readable on a phone and on paper; follows the light or dark setting of the reader.
constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1d2228; --soft: #5b6670; --line: #d5dade; --back: #ffffff; --tint: #f3f5f7; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ec; --soft: #9aa6b1; --line: #3a434c; --back: #14181c; --tint: #1d2329; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 52rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; line-height: 1.2; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: .25rem .8rem; border-bottom: 1px solid var(--line); text-align: left; }
th { color: var(--soft); font-weight: 600; }
td.right, th.right { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: var(--tint); padding: .8rem; overflow-x: auto; white-space: pre-wrap; font-size: .85rem; }
figure { margin: 1rem 0; }
figure svg { max-width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .9rem; }
)";

}  // namespace

std::string html_escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '\t':
      case '\n':
      case '\r':
        out += c;
        break;
      default:
        if ((c >= 0 && c < 0x20) || c == 0x7F)
          out += "\xEF\xBF\xBD";
        else
          out += c;
    }
  }
  return out;
}

HtmlPage::HtmlPage(std::string_view title, std::string_view language) {
  const std::string escaped = html_escape(title);
  head_ = "<!doctype html>\n<html lang=\"" + html_escape(language) + "\">\n<head>\n<meta charset=\"utf-8\">\n" +
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" + escaped +
          "</title>\n<style>" + std::string(kStyle) + "</style>\n</head>\n<body>\n";
  body_ = "<h1>" + escaped + "</h1>\n";
}

void HtmlPage::read_again_every(int seconds) {
  head_ += "<meta http-equiv=\"refresh\" content=\"" + std::to_string(seconds) + "\">\n";
}

void HtmlPage::heading(std::string_view text) { body_ += "<h2>" + html_escape(text) + "</h2>\n"; }

void HtmlPage::paragraph(std::string_view text) { body_ += "<p>" + html_escape(text) + "</p>\n"; }

void HtmlPage::preformatted(std::string_view text) { body_ += "<pre>" + html_escape(text) + "</pre>\n"; }

void HtmlPage::table(const Table& table) { body_ += table_html(table); }

void HtmlPage::svg(std::string_view markup, std::string_view caption) {
  body_ += "<figure>\n" + std::string(markup) + "<figcaption>" + html_escape(caption) + "</figcaption>\n</figure>\n";
}

std::string HtmlPage::str() const { return head_ + body_ + "</body>\n</html>\n"; }

}  // namespace tern
