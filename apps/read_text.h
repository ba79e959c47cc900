#pragma once
// Texts that a verb reads, and their tokens.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/progress.h"
#include "formats/data/token_data.h"

namespace tern {

/// A whole file, "-" for standard input. Errors: bad_file.
std::string read_text(const std::string& path);
/// The first `most` tokens of a text, without what a tokenizer adds: of a long text no more is encoded than they need.
/// `whole`: whether those are all.
std::vector<int32_t> encode_at_most(const Tokenizer&, std::string_view text, size_t most, bool& whole);
/// Tells where the first byte is that is not valid UTF-8, as the tokenizer reads it as U+FFFD.
void tell_invalid_utf8(std::string_view text);
/// The progress line of packing a text, for a PackOptions; it appears only if packing takes a second. Packing stops
/// when a stop is requested.
class PackLine {
 public:
  PackOptions options() { return {.progress = &PackLine::update, .context = this}; }
  void finish();

 private:
  static bool update(void* self, int64_t bytes_done, int64_t bytes_total);
  int64_t begin_ns_ = real_clock().now_ns(), total_ = 0;
  std::unique_ptr<Progress> line_;
};

}  // namespace tern
