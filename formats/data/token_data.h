#pragma once
// Token files: documents as ids, memory-mapped. One safetensors file with tensors `tokens` (u16 if the vocabulary fits,
// else i32), `documents` (i64: where each starts, and the end), optionally `loss` (u8 per token, 1 where a loss is
// taken).

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/io.h"
#include "formats/data/text_data.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {

class ChatTraining;

struct TokenFileInfo {
  int64_t num_tokens = 0, num_documents = 0, vocab_size = 0;
  int64_t text_bytes = 0;  // UTF-8 bytes of the text the tokens came from: bits per byte needs it
  std::string tokenizer_hash, source;
};

/// An open token file.
class TokenData {
 public:
  /// Mapped from a real disk, read whole from any other Io.
  /// Errors  bad_file: not a token file, a checksum that differs (pack always writes one; a file made by other means may
  ///         have none), an id outside the vocabulary, documents not rising, a mask of another length.
  static TokenData open(const std::filesystem::path&, Io& = real_io());

  const TokenFileInfo& info() const { return info_; }
  int64_t num_tokens() const { return info_.num_tokens; }
  int64_t num_documents() const { return info_.num_documents; }
  int32_t token(int64_t i) const;
  /// tokens [first, first + out.size())
  void read(int64_t first, std::span<int32_t> out) const;
  /// num_documents + 1 offsets into the tokens, the first 0, the last num_tokens.
  std::span<const int64_t> documents() const { return documents_; }
  /// The document token `i` lies in.
  int64_t document_of(int64_t i) const;
  bool has_loss() const { return loss_ != nullptr; }
  /// What was read leaves the program's resident memory; it can be read again.
  void let_go() const;
  /// Whether a loss is taken for predicting token i; true everywhere in a file without a mask.
  bool loss(int64_t i) const { return !loss_ || loss_[i] != 0; }

 private:
  struct Held;  // the file, mapped or in memory
  std::shared_ptr<const Held> file_;
  const std::byte* tokens_ = nullptr;  // not necessarily aligned
  bool is_wide_ = false;               // i32, not u16
  const uint8_t* loss_ = nullptr;
  std::vector<int64_t> documents_;
  TokenFileInfo info_;
};

/// The value of the metadata key `crc32c`: made of the checksums of the three tensors (`loss` 0 without a mask) and of the
/// header's facts.
std::string token_checksum(uint32_t tokens, uint32_t loss, uint32_t documents, const TokenFileInfo&);

/// Whether the file says that it is a token file, whatever its name: a safetensors header that names the format.
bool is_token_file(const std::filesystem::path&);

/// Called while packing goes on, for a progress line; false stops it (then ErrorKind::interrupted).
using PackProgress = bool (*)(void* context, int64_t bytes_done, int64_t bytes_total);
struct PackOptions {
  PackProgress progress = nullptr;
  void* context = nullptr;
  InvalidUtf8 invalid_utf8 = InvalidUtf8::error;      // an error names file, line and byte
  std::function<void(const std::string&)> tell = {};  // called with what a person should know: documents changed
  const ChatTraining* chat = nullptr;                 // for lines with messages; null: they are an error
  int64_t memory_bytes = INT64_MAX;  // that one document may take while it becomes tokens; beyond it: does_not_fit
  int64_t window =
      0;  // not 0: pairs of answers alone, each answer with its prompt filled up to so many tokens; then one more
  int64_t* most_bytes = nullptr;  // set to the largest memory bound of any one document; 0 if all were short enough to
                                  // need none
};

/// Packs text (.txt or any other name) and JSONL (.jsonl, .ndjson) into one token file, written under a temporary name and
/// renamed. A line of JSONL has `text`; or `prompt` and `completion`, with the loss on the completion alone; or `messages`,
/// with the loss on the assistant's alone and nothing added around them. Documents of a text file are separated by
/// <|endoftext|> lines; a file without such a line is one document. Each document gets BOS in front if the tokenizer adds one
/// and EOS behind if there is an EOS.
/// "<|endoftext|>" within a line, like every other special token's text, is plain text: data must not forge structure.
/// A prompt and its completion are encoded each on its own, as generation would meet them.
/// Pairs (`chosen`, `rejected`), only with a window: each answer is a document of its own, the rejected one behind the chosen one, filled
/// up with tokens 0 without a loss; at the end of all comes one more token.
/// Memory  bounded: files are mapped and let go, long documents are encoded in parts of 1
///         MiB where that cannot change ids (byte-level tokenizers of the usual patterns),
///         else whole; offsets take 8 bytes per document. Ids go through a temporary
///         file.
/// Errors  bad_file: naming file and line; a document of more than 256 MiB that cannot be encoded in parts; with a window: a line that is
///         no pair, an answer that is longer; without: a pair.
TokenFileInfo pack(const std::vector<std::filesystem::path>& inputs, const Tokenizer&,
                   const std::filesystem::path& output, PackOptions = {}, Io& = real_io());

/// A token file (is_token_file, or any .safetensors) is opened (its tokenizer must be this one); text or JSONL, or a folder of them
/// (data_files), is packed into `cache_dir` once and found again by the files' paths, sizes, times and the tokenizer's hash. The packed file
/// is written through the Io; inputs are read from the real disk.
TokenData load_or_pack(const std::filesystem::path& data, const Tokenizer&, const std::filesystem::path& cache_dir,
                       PackOptions = {}, Io& = real_io());

}  // namespace tern
