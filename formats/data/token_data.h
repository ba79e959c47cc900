#pragma once
// Token files: documents as ids, memory-mapped. One safetensors file with tensors `tokens` (u16 if the vocabulary fits,
// else i32), `documents` (i64: where each starts, and the end), optionally `loss` (u8 per token, 1 where a loss is
// taken).

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/io.h"

namespace tern {

/// What the header of a token file says.
struct TokenFileInfo {
  int64_t num_tokens = 0, num_documents = 0, vocab_size = 0;
  int64_t text_bytes = 0;  // UTF-8 bytes of the text the tokens came from: bits per byte needs it
  std::string tokenizer_hash, source;
};

/// An open token file.
class TokenData {
 public:
  /// Maps a file on a real disk; reads the file whole from any other Io.
  /// Errors  bad_file: not a token file, a checksum that differs (pack always writes one; a file made by other means
  ///         may have none), an id outside the vocabulary, documents not rising, a mask of another length.
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
  /// Lets go of the pages that were read; they can be read again.
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

/// The value of the metadata key `crc32c`: a checksum of the checksums of the three tensors (`loss`: 0 without a mask)
/// and of the header's facts.
std::string token_checksum(uint32_t tokens, uint32_t loss, uint32_t documents, const TokenFileInfo&);

/// Whether the file is a token file by its content, a safetensors header that names the format, whatever its name.
bool is_token_file(const std::filesystem::path&);

}  // namespace tern
