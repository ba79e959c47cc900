#pragma once
// Texts that a verb reads, and their tokens.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/data/token_data.h"

namespace tern {

class Options;

constexpr int64_t kSmallText = int64_t{1} << 20;  // bytes of texts and tokens that every run has room for

/// Memory for texts: bytes there are, and what work on a text takes of them for each of its bytes, the text itself counted.
struct TextRoom {
  int64_t bytes = INT64_MAX, per_byte = 1;
};
/// What --memory allows, or the machine has, beside the program and what is resident now.
int64_t text_room(const Options&);
/// A whole file, "-" for standard input. Errors: bad_file; does_not_fit: more than there is room for, before it is read (a
/// text of up to 1 MiB always is).
std::string read_text(const std::string& path, const TextRoom& = {});
/// Of texts that are read as lines: what `per_line` bytes for each take is counted too. Errors: does_not_fit, naming `where`.
void require_lines_fit(std::string_view text, int64_t per_line, const TextRoom&, const std::string& where);
/// The first `most` tokens of a text, without what a tokenizer adds: of a long text no more is encoded than they need.
/// `whole`: whether those are all. Errors: does_not_fit, naming `where`: tokens or a part that is encoded at once take more
/// than `room_bytes`.
std::vector<int32_t> encode_at_most(const Tokenizer&, std::string_view text, size_t most, bool& whole,
                                    int64_t room_bytes = INT64_MAX, const std::string& where = "the text");
/// Tells where the first byte is that is not valid UTF-8, as the tokenizer reads it as U+FFFD.
void tell_invalid_utf8(std::string_view text);

}  // namespace tern
