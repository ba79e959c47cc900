#pragma once
// Byte-pair encoding of one word: the model of tokenizer.json without what surrounds it. The reference: Hugging Face's tokenizers.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/piece_table.h"

namespace tern {

/// Two neighbouring pieces that become one.
struct Merge {
  int32_t left, right, result;
  uint32_t rank;  // lower goes first; of equal ranks the leftmost
};

/// Finds the merge of a pair (left, right); a hash table with open addressing.
class MergeTable {
 public:
  void assign(std::span<const Merge>);  // a later merge of the same pair replaces an earlier one, as in the reference
  const Merge* find(int32_t left, int32_t right) const;
  int64_t size() const { return size_; }

 private:
  std::vector<Merge> slots_;  // left < 0: free
  int64_t size_ = 0;
};

/// The model of a tokenizer.json, or of GGUF.
struct BpeModel {
  PieceTable pieces;
  std::vector<Merge> merge_list;  // by rank
  MergeTable merges;
  bool ignore_merges = false;  // a word that is a piece becomes that piece
  bool byte_fallback = false;  // an unknown character becomes <0xNN> pieces
  bool fuse_unk = false;
  bool byte_level_input = false;  // words are raw text: spell them in byte-level characters first
  std::optional<int32_t> unk;
  std::string unk_token, subword_prefix, word_suffix;  // continuing_subword_prefix, end_of_word_suffix

  /// Fills what encoding looks up; call after the fields above are set.
  void finish();
  std::array<int32_t, 0x180> short_ids{};  // ids of the characters below U+0180; -1: none
  std::array<int32_t, 256> byte_ids{};     // ids of <0xNN>; -1: none
  std::array<int32_t, 256> spelled_ids{};  // ids of the bytes' byte-level characters; -1: none
  bool all_spelled = false;                // no spelled id is -1, no prefix or suffix: a word's bytes are its symbols
  /// "▁" is a piece, and no merge joins it to another character before it: a cut in front of a run of "▁" changes no id.
  bool cuts_at_metaspace = false;
};

/// Memory that calls of encode_bpe use one after another; each thread has its own.
struct BpeScratch {
  struct Symbol {
    int32_t id, prev, next;
  };
  struct Queued {
    uint32_t rank;
    int32_t at, result;
  };
  std::vector<Symbol> symbols;
  struct Pair {
    int32_t id, result;  // a symbol; what it and the next become
    uint32_t rank;       // of that merge; UINT32_MAX: there is none
  };
  std::vector<Pair> pairs;
  std::vector<Queued> queue;
  std::string text;
};

/// Appends the ids of one word (valid UTF-8).
/// Order   the merges of the reference: lowest rank first, then leftmost; time n log n for n characters (n² where they
///         are few).
void encode_bpe(const BpeModel&, std::string_view word, BpeScratch&, std::vector<int32_t>& ids);

/// The two ways to merge a word's symbols; same results. `few`: in `pairs`, by looking through all of them each time.
/// `many`: in `symbols`, by a heap.
void merge_few(const BpeModel&, BpeScratch&);
void merge_many(const BpeModel&, BpeScratch&);

}  // namespace tern
