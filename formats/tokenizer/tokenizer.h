#pragma once
// Text to token ids and back, exactly as the reference libraries (Hugging Face's tokenizers, SentencePiece) do it. A Tokenizer is a
// value: immutable, cheap to copy (it shares its tables), safe to use from many threads at once.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/io.h"

#include "formats/text_span.h"

namespace tern {

struct TokenizerData;  // formats/tokenizer/tokenizer_impl.h

/// Where a long text is cut: into [0, end) and [next, …). next = end, unless the tokenizer itself adds the space between.
struct TextCut {
  size_t end = 0, next = 0;
};

struct EncodeOptions {        // how text is encoded
  bool add_special = true;    // what the post-processor adds: BOS and the like
  bool allow_special = true;  // "<|endoftext|>" in the text is that token; false: it is plain text (untrusted input)
  // Ranges of bytes, ascending and disjoint, that are not trusted: a special token that lies wholly in one is plain text.
  // Added tokens found in the raw text cut it into stretches, and each stretch is normalized by itself. If a range touches a
  // stretch anywhere, every special token found in its normalized text is plain text.
  std::span<const TextSpan> plain = {};
  std::span<const int32_t> plain_tokens = {};  // ids of added tokens that are treated there like special tokens
};

struct DecodeOptions {        // how ids are decoded
  bool skip_special = false;  // leave out special tokens
  // " ." -> "." and the like. Absent: off, unless tokenizer_config.json sets clean_up_tokenization_spaces and also that key
  // with the suffix _for_bpe_even_though_it_will_corrupt_output. The first alone is ignored, as transformers 5 does for BPE.
  std::optional<bool> clean_up = {};
};

/// Errors of load: bad_file, naming file, key and what tern reads. A component type tern does not know is an error and
/// never skipped; so is BPE dropout.
/// Source  the JSON of Hugging Face tokenizers 0.23, judged by that library's ids (dev/tokenizers/).
class Tokenizer {
 public:
  /// From a model directory (tokenizer.json, else vocab.json + merges.txt, else vocab.txt (BERT), else tokenizer.model:
  /// SentencePiece or tiktoken ranks), or from one of those files, or from the vocabulary of a GGUF file.
  /// tokenizer_config.json and special_tokens_map.json beside it are honoured.
  static Tokenizer load(const std::filesystem::path& directory_or_file);
  /// From the bytes of a tokenizer.json and (may be empty) a tokenizer_config.json; `place` names them in errors.
  static Tokenizer from_json(std::string_view tokenizer_json, std::string_view tokenizer_config,
                             const std::string& place = "tokenizer.json");

  /// Ids of the text. Invalid UTF-8 is read as U+FFFD, one per maximal ill-formed part (as Python's errors="replace");
  /// callers that must not lose bytes check first with base/utf8.h.
  /// A character that has no piece gives no id where there are neither byte pieces nor an unknown token, as in the reference;
  /// byte-level vocabularies have all 256 bytes. Errors  bad_file: a Split pattern that needs more than a
  /// bounded number of steps; usage: invalid UTF-8 with ranges in `plain`.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions = {}) const;
  /// Appends the same ids to `ids`.
  void encode_into(std::string_view text, EncodeOptions, std::vector<int32_t>& ids) const;

  /// A place in (near / 2, near] where the text may be cut so that the ids of both parts, one behind the other, are
  /// those of the whole (specials aside); {0, 0} if this tokenizer or this text has none. For texts too long to encode
  /// at once.
  TextCut find_cut(std::string_view text, size_t near) const;

  /// Text of the ids. Bytes that are no UTF-8 become U+FFFD as in the reference. Ids without a piece (`has(id)` is
  /// false) give no text, as in the reference: models often have more rows than the tokenizer has pieces.
  std::string decode(std::span<const int32_t> ids, DecodeOptions = {}) const;

  int64_t vocab_size() const;  // largest id + 1, added tokens included
  bool has(int64_t id) const;
  /// The piece as the file spells it ("Ġthe", "▁the", "<0x0A>"); empty if there is none.
  std::string_view piece(int64_t id) const;
  /// The bytes that the token adds behind other tokens, as decode without skip_special and clean_up writes it; parts of a
  /// character stay bytes. Errors  usage: the decoder looks further than one token.
  std::string token_bytes(int64_t id) const;
  std::optional<int32_t> id_of(std::string_view piece) const;
  bool is_special(int64_t id) const;

  std::optional<int32_t> bos()
      const;  // from tokenizer_config.json, else by the usual names ("<s>", "<|endoftext|>", …)
  std::optional<int32_t> eos() const;
  std::optional<int32_t> unk() const;
  std::optional<int32_t> pad() const;
  bool adds_bos() const;  // encode(…, add_special) puts BOS in front
  bool adds_eos() const;  // … and EOS behind
  bool has_chat_template() const;

  /// Sixteen hex digits over everything that decides ids: pieces, merges, components. Token files carry it.
  std::string hash() const;
  /// One line for people: "byte-level BPE, 50257 pieces, 50000 merges".
  std::string describe() const;

  /// Writes tokenizer.json (tokenizer.model, if made of a SentencePiece model) and tokenizer_config.json, which tern and
  /// transformers read back to the same ids.
  void save(const std::filesystem::path& directory, Io& io = real_io()) const;
  /// The bytes of these two files. Errors of to_json: bad_file, if the tokenizer was made of a SentencePiece model.
  std::string to_json() const;
  std::string config_json() const;

  explicit Tokenizer(std::shared_ptr<const TokenizerData> data) : data_(std::move(data)) {}
  const TokenizerData& data() const { return *data_; }

 private:
  std::shared_ptr<const TokenizerData> data_;
};

/// Decodes a stream of ids to text as it arrives. The parts joined are the decoding of all ids, and no part ends inside a
/// code point: bytes wait until their character is complete.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(Tokenizer, DecodeOptions = {});
  ~StreamingDecoder();
  StreamingDecoder(StreamingDecoder&&) noexcept;
  StreamingDecoder& operator=(StreamingDecoder&&) noexcept;
  /// Text that is certain now; may be empty.
  std::string push(int32_t id);
  /// Returns what still waits; an incomplete character becomes U+FFFD. Afterwards the decoder is as new.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tern
