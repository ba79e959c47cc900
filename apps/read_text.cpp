#include "apps/read_text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "apps/signals.h"
#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {

std::string read_text(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw Error(ErrorKind::bad_file, "{}: a directory; expected a file of text", path);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorKind::bad_file, "{}: cannot be read; is the path right?", path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) throw Error(ErrorKind::bad_file, "{}: reading stopped half-way; is it a regular file?", path);
  return text;
}

void tell_invalid_utf8(std::string_view text) {
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos)
    log_info("byte {} of the text is not UTF-8; such bytes are read as U+FFFD", bad);
}

std::vector<int32_t> encode_at_most(const Tokenizer& tokenizer, std::string_view text, size_t most, bool& whole) {
  constexpr size_t kPartBytes = size_t{1} << 20;
  std::vector<int32_t> tokens;
  for (whole = false; !text.empty() && tokens.size() <= most;) {
    TextCut cut{text.size(), text.size()};
    if (text.size() > kPartBytes)
      if (const TextCut found = tokenizer.find_cut(text, kPartBytes); found.end > 0) cut = found;
    tokenizer.encode_into(text.substr(0, cut.end), {.add_special = false}, tokens);
    text.remove_prefix(cut.next);
  }
  whole = text.empty() && tokens.size() <= most;
  tokens.resize(std::min(tokens.size(), most));
  return tokens;
}

bool PackLine::update(void* self, int64_t bytes_done, int64_t bytes_total) {
  auto& me = *static_cast<PackLine*>(self);
  constexpr int64_t kKiB = 1024;
  if (stop_requested()) return false;
  if (bytes_total != me.total_) me.finish();  // the next file
  me.total_ = bytes_total;
  if (!me.line_) {
    if (seconds_between(me.begin_ns_, real_clock().now_ns()) < 1) return true;
    me.line_ = std::make_unique<Progress>("tokenize", bytes_total / kKiB, real_clock(), ProgressOptions{}, "KiB");
  }
  me.line_->update(bytes_done / kKiB);
  return true;
}

void PackLine::finish() {
  if (line_) line_->finish();
  line_.reset();
}

}  // namespace tern
