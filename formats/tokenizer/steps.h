#pragma once
// The steps a tokenizer.json strings together, as plain values, and what runs them. Names are the file's.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/tokenizer/budget.h"
#include "formats/tokenizer/byte_trie.h"
#include "formats/tokenizer/charsmap.h"
#include "formats/tokenizer/regex.h"
#include "formats/tokenizer/unicode.h"

namespace tern {

// ---- normalizers: text -> text ----
struct PrependStep {
  std::string text;
};
struct ReplaceStep {
  Regex pattern;
  std::string content;
};
struct UnicodeStep {
  NormalForm form;
};
struct LowercaseStep {};
struct StripAccentsStep {};
struct StripSpacesStep {
  bool left, right;
};
struct ByteLevelTextStep {};
struct BertStep {
  bool clean_text, chinese_alone, strip_accents, lowercase;
};
struct NmtStep {};
struct CharsmapStep {
  std::shared_ptr<const Charsmap> map;  // null: no rules, the text stays
};
struct SentencePieceStep {  // formats/tokenizer/sentencepiece.h
  std::shared_ptr<const Charsmap> map;
  std::shared_ptr<const ByteTrie> kept;  // user-defined pieces: never rewritten
  bool keeps_some = false;
  bool prefix = true, suffix = false;  // a space is put in front, or behind
  bool remove_extra = true, escape = true;
};
using NormalizeStep =
    std::variant<PrependStep, ReplaceStep, UnicodeStep, LowercaseStep, StripAccentsStep, StripSpacesStep,
                 ByteLevelTextStep, BertStep, NmtStep, CharsmapStep, SentencePieceStep>;

/// Runs the steps in order. `front_removed` is set: whether a step took characters away from the front of `text` (Metaspace
/// asks). No step may make
/// more than the budget has; what the last one makes is spent.
std::string normalize(const std::vector<NormalizeStep>&, std::string_view text, bool& front_removed, TextBudget&);

// ---- pre-tokenizers: text -> words ----
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
enum class PrependScheme { always, first, never };
struct SplitStep {
  Regex pattern;
  SplitBehavior behavior;
  bool invert;
};
struct SplitOnClassStep {
  CharClass members;
  SplitBehavior behavior;
};  // Digits, Punctuation, WhitespaceSplit; two of them are BertPreTokenizer
struct SplitOnCharacterStep {
  uint32_t character;
};                         // CharDelimiterSplit
struct WhitespaceStep {};  // \w+|[^\w\s]+
struct ByteLevelStep {
  bool add_prefix_space, use_regex;
};
struct MetaspaceStep {
  std::string replacement;
  PrependScheme scheme;
  bool split;
};
using SplitTextStep =
    std::variant<SplitStep, SplitOnClassStep, SplitOnCharacterStep, WhitespaceStep, ByteLevelStep, MetaspaceStep>;

struct Word {
  size_t begin, end;
  bool at_start;  // begins where the whole text begins
};

/// Words of a text and the memory to find them; kept between calls.
struct WordSplitter {
  std::string text, next_text;  // the words lie in `text`
  std::vector<Word> words, next_words;
  std::vector<TextSpan> spans;
};

/// Leaves the words of `text` in the splitter. No step may make more than the budget has.
void split_words(const std::vector<SplitTextStep>&, std::string_view text, bool at_start, WordSplitter&, TextBudget&);

// ---- decoders: pieces -> text ----
struct ByteLevelDecode {};
struct ByteFallbackDecode {};
struct FuseDecode {};
struct StripDecode {
  uint32_t content = 0;
  int64_t start = 0, stop = 0;
};
struct ReplaceDecode {
  Regex pattern;
  std::string content;
};
struct MetaspaceDecode {
  std::string replacement;
  bool drop_first;
};
struct SuffixDecode {
  std::string suffix;
};  // BPEDecoder
struct WordPieceDecode {
  std::string prefix;
  bool clean_up;
};
struct CtcDecode {
  std::string pad, delimiter;
  bool clean_up;
};
/// SentencePiece's: while there is no text yet a piece loses the ▁ it begins with; `every` piece, or the first that has one.
struct LeadingSpaceDecode {
  bool every = false;
};
struct JoinDecode {};  // no decoder: pieces with a space between
using DecodeStep =
    std::variant<ByteLevelDecode, ByteFallbackDecode, FuseDecode, StripDecode, ReplaceDecode, MetaspaceDecode,
                 SuffixDecode, WordPieceDecode, CtcDecode, LeadingSpaceDecode, JoinDecode>;

/// The bytes that a piece adds behind others; parts of a character stay bytes. Errors usage: the steps look further than
/// one piece (BPEDecoder, CTC).
std::string bytes_of_piece(const std::vector<DecodeStep>&, std::string_view piece);

/// Runs decode steps over pieces as they come. What is certain is written at once, the rest waits: an unfinished
/// character, a run of <0xNN> pieces (one bad byte spoils the whole run in the reference), spaces that may be stripped.
/// All that steps hand on is spent from one budget, which grows with the pieces.
class DecodePipeline {
 public:
  explicit DecodePipeline(const std::vector<DecodeStep>&);  // the steps must outlive it
  ~DecodePipeline();
  DecodePipeline(DecodePipeline&&) noexcept;
  void push(std::string_view piece, std::string& out);
  void finish(std::string& out);  // and begin anew

 private:
  struct Stage;
  struct Next;
  void feed(size_t stage, std::string_view piece, std::string& out);
  std::vector<Stage> stages_;
  TextBudget budget_{0};
};

}  // namespace tern
