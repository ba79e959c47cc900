#include "apps/demo_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace tern {
namespace {

constexpr size_t kEvery = 20;  // one piece in twenty is held out: 5 %
constexpr size_t kLeastBytes = 200000;
constexpr std::string_view kSeparator = "%\n";  // a line of its own between two fortunes

bool is_continuation(char c) { return (c & 0xC0) == 0x80; }

void check_utf8(const std::string& text, const std::string& path) {
  if (!is_valid_utf8(text))
    throw Error(ErrorKind::bad_file, "{}: is not UTF-8 text, expected plain text; convert it first (iconv -t utf-8)",
                path);
}

// Pieces between separator lines; each ends with its newline.
std::vector<std::string_view> fortunes_of(std::string_view text) {
  std::vector<std::string_view> pieces;
  size_t begin = 0;
  for (size_t line = 0; line < text.size();) {
    const size_t end = std::min(text.find('\n', line), text.size() - 1) + 1;
    if (text.substr(line, end - line) == kSeparator) {
      pieces.push_back(text.substr(begin, line - begin));
      begin = end;
    }
    line = end;
  }
  pieces.push_back(text.substr(begin));
  return pieces;
}

void append_piece(std::string& to, std::string_view piece) {
  if (!to.empty()) to += kSeparator;
  to += piece;
}

}  // namespace

std::string without_overstrikes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c != '\b') {
      out += c;
      continue;
    }
    if (out.empty() || out.back() == '\n') continue;
    while (out.size() > 1 && is_continuation(out.back())) out.pop_back();
    out.pop_back();
  }
  return out;
}

DemoText fortunes_text(Io& io, const std::string& directory) {
  const auto info = io.stat(directory);
  if (!info || !info->is_directory)
    throw Error(
        ErrorKind::bad_file,
        "{}: no such folder, expected the texts of the packages fortunes-min and fortunes; run ./setup, or apt-get "
        "install fortunes, or give a text of your own with --data FILE",
        directory);
  std::string raw;
  int files = 0;
  for (const std::string& name : io.list(directory)) {  // sorted
    const std::string path = join_path(directory, name);
    if (name.find('.') != std::string::npos || io.stat(path)->is_directory) continue;
    std::string text = io.read(path);
    check_utf8(text, path);
    raw += text;
    ++files;
  }
  if (raw.size() < kLeastBytes)
    throw Error(ErrorKind::bad_file,
                "{}: holds {} bytes of text in {} files, expected the 2.6 MB of the package fortunes; apt-get "
                "install fortunes, or --data FILE",
                directory, raw.size(), files);
  return {without_overstrikes(raw), fmt::format("{} files of Debian's fortunes", files),
          std::count(raw.begin(), raw.end(), '\b')};
}

DemoText file_text(Io& io, const std::string& path) {
  const std::string raw = io.read(path);
  check_utf8(raw, path);
  if (raw.size() < kLeastBytes)
    throw Error(ErrorKind::bad_file,
                "{}: has {} bytes, expected at least {} of plain text: less teaches a model nothing that "
                "could be measured",
                path, raw.size(), kLeastBytes);
  return {without_overstrikes(raw), path, std::count(raw.begin(), raw.end(), '\b')};
}

HeldOut hold_out(std::string_view text) {
  const std::vector<std::string_view> pieces = fortunes_of(text);
  HeldOut out;
  if (pieces.size() < 10 * kEvery) {
    const size_t cut = text.rfind('\n', text.size() - text.size() / kEvery);
    const size_t begin = cut == std::string_view::npos ? text.size() - text.size() / kEvery : cut + 1;
    size_t whole = begin;
    while (whole < text.size() && is_continuation(text[whole])) ++whole;
    return {std::string(text.substr(0, whole)), std::string(text.substr(whole)), "the last twentieth", 0};
  }
  std::unordered_set<std::string_view> trained;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i % kEvery == kEvery - 1) continue;
    trained.insert(pieces[i]);
    append_piece(out.train, pieces[i]);
  }
  for (size_t i = kEvery - 1; i < pieces.size(); i += kEvery) {
    if (trained.count(pieces[i]))
      ++out.repeated;
    else
      append_piece(out.held_out, pieces[i]);
  }
  out.how = fmt::format("every twentieth fortune, less {} that stand{} among the others too", out.repeated,
                        out.repeated == 1 ? "s" : "");
  return out;
}

}  // namespace tern
