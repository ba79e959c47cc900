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
struct ModelDescription;
enum class Answers : uint8_t;

constexpr int64_t kSmallText = int64_t{1} << 20;  // bytes of texts and tokens that are read whatever the memory is
/// The memory for a text.
struct TextRoom {
  int64_t bytes = INT64_MAX;  // size of the memory
  int64_t per_byte = 1;       // bytes of memory for the text and the work on it, per byte of the text
};
/// The bytes that --memory allows or that the machine has, less those of the program and those that are resident now.
int64_t text_room(const Options&);
/// Whether `path` is a file of documents, a token file or JSONL, which load_or_pack (formats/data/pack.h) reads; else it is one text.
bool has_documents(const std::string& path);
/// The documents of such a file, of JSONL up to the one that reaches `most_tokens`. JSONL is packed into a temporary file; progress is
/// shown. Conversations are written by --chat-template or the model's template. Errors: interrupted: a stop was requested.
TokenData load_documents(const Options&, const ModelDescription&, const std::string& path, Answers,
                         int64_t most_tokens);
/// Refuses --answers and --chat-template where `path` has no lines that could be conversations. Errors: usage.
void refuse_words_of_conversations(const Options&, const std::string& path);
/// Reads a whole file; "-": standard input. Errors: bad_file; does_not_fit: the text is larger than the room. The size is
/// checked before reading, and again afterwards, as each byte that is no UTF-8 becomes three. A text of up to 1 MiB is
/// always read; if per_byte is more than encoding takes (1 + kEncodeBytesPerByte), the 1 MiB shrinks in the same proportion.
std::string read_text(const std::string& path, const TextRoom& = {});
/// Checks that there is room for a text and `per_line` bytes for each of its lines. `where` names the text. Errors: does_not_fit.
void require_lines_fit(std::string_view text, int64_t per_line, const TextRoom&, const std::string& where);
/// The first `most` tokens of a text, without those that a tokenizer adds; no more of the text is encoded than they need. `whole` is set to
/// whether these are all tokens. `where` names the text. Errors: does_not_fit: the tokens, or a part encoded at once, take more than `room_bytes`.
std::vector<int32_t> encode_at_most(const Tokenizer&, std::string_view text, size_t most, bool& whole,
                                    int64_t room_bytes = INT64_MAX, const std::string& where = "the text");
/// If the text is not valid UTF-8, tells the user where its first invalid byte is. The tokenizer reads such bytes as U+FFFD.
void tell_invalid_utf8(std::string_view text);

}  // namespace tern
