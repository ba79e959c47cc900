#pragma once
// The decoders of tokenizer.json, pieces to text, as plain values named as the file names them, and what runs them. The reference: Hugging Face's tokenizers.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/tokenizer/budget.h"
#include "formats/tokenizer/regex.h"

namespace tern {

/// ByteLevel: characters of byte-level BPE become their bytes.
struct ByteLevelDecode {};
/// ByteFallback: <0xNN> pieces become their bytes, or each U+FFFD if a run of them is no UTF-8.
struct ByteFallbackDecode {};
/// Fuse: all pieces become one.
struct FuseDecode {};
/// Strip: up to `start` and `stop` characters `content` go from the front and the end of each piece.
struct StripDecode {
  uint32_t content = 0;
  int64_t start = 0, stop = 0;
};
/// Replace: in each piece.
struct ReplaceDecode {
  Regex pattern;
  std::string content;
};
/// Metaspace: `replacement` becomes a space; drop_first: not at the front of the text.
struct MetaspaceDecode {
  std::string replacement;
  bool drop_first;
};
/// BPEDecoder: the suffix becomes a space, at the end of the text nothing.
struct SuffixDecode {
  std::string suffix;
};
/// WordPiece: pieces with the prefix follow without a space.
struct WordPieceDecode {
  std::string prefix;
  bool clean_up;
};
/// CTC: equal neighbours become one, `pad` goes, `delimiter` becomes a space.
struct CtcDecode {
  std::string pad, delimiter;
  bool clean_up;
};
/// SentencePiece's rule: a piece before which there is no text yet loses the ▁ that it begins with. Without `every`
/// only the first such piece does.
struct LeadingSpaceDecode {
  bool every = false;
};
struct JoinDecode {};  // no decoder: pieces with a space between
using DecodeStep =
    std::variant<ByteLevelDecode, ByteFallbackDecode, FuseDecode, StripDecode, ReplaceDecode, MetaspaceDecode,
                 SuffixDecode, WordPieceDecode, CtcDecode, LeadingSpaceDecode, JoinDecode>;

/// The bytes that a piece adds after other pieces; a part of a character stays bytes. Errors  usage: a step looks
/// further than one piece (BPEDecoder, CTC).
std::string bytes_of_piece(const std::vector<DecodeStep>&, std::string_view piece);

/// Runs decode steps over pieces as they come. It writes what is certain at once; the rest waits: an unfinished
/// character, a run of <0xNN> pieces (one bad byte spoils the whole run in the reference), spaces that may be stripped.
/// All that steps hand on is spent from one budget, which grows with the pieces.
class DecodePipeline {
 public:
  explicit DecodePipeline(const std::vector<DecodeStep>&);  // the steps must outlive it
  ~DecodePipeline();
  DecodePipeline(DecodePipeline&&) noexcept;
  void push(std::string_view piece, std::string& out);
  void finish(std::string& out);  // appends what still waits; the pipeline can then begin anew

 private:
  struct Stage;
  struct Next;
  void feed(size_t stage, std::string_view piece, std::string& out);
  std::vector<Stage> stages_;
  TextBudget budget_{0};
};

}  // namespace tern
