#pragma once
// Reads texts and encodes them, within the memory that there is.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/progress.h"
#include "formats/data/pack.h"
#include "formats/data/token_data.h"

namespace tern {

class Options;

constexpr int64_t kSmallText = int64_t{1} << 20;  // bytes of texts and tokens that are read whatever the memory is
/// The memory for a text.
struct TextRoom {
  int64_t bytes = INT64_MAX;  // how many there are
  int64_t per_byte = 1;       // that the work on a text takes for each byte of the text, the text itself included
};
/// The bytes that --memory allows, or that the machine has, beside the program and what is resident now.
int64_t text_room(const Options&);
/// Reads a whole file; "-": standard input. Errors: bad_file; does_not_fit: the text is larger than the room. That is checked before it is read, and again
/// after it, as each byte that is no UTF-8 becomes three. A text of up to 1 MiB is always read; where per_byte is above that of encoding
/// (1 + kEncodeBytesPerByte), the 1 MiB shrinks in the same proportion.
std::string read_text(const std::string& path, const TextRoom& = {});
/// Checks that there is room for a text and `per_line` bytes for each of its lines. `where` names the text. Errors: does_not_fit.
void require_lines_fit(std::string_view text, int64_t per_line, const TextRoom&, const std::string& where);
/// The first `most` tokens of a text, without tokens that a tokenizer adds. Of a long text only so much is encoded as they need. Sets `whole` to whether
/// these are all tokens. `where` names the text. Errors: does_not_fit: the tokens, or a part that is encoded at once, take more than `room_bytes`.
std::vector<int32_t> encode_at_most(const Tokenizer&, std::string_view text, size_t most, bool& whole,
                                    int64_t room_bytes = INT64_MAX, const std::string& where = "the text");
/// If the text is not valid UTF-8, tells the user where its first wrong byte is, as the tokenizer reads that as U+FFFD.
void tell_invalid_utf8(std::string_view text);

}  // namespace tern
