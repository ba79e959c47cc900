#include "formats/tokenizer/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/tokenizer/byte_level.h"
#include "formats/tokenizer/piece_table.h"
#include "formats/tokenizer/unicode.h"

namespace tern {

namespace {

size_t first_not_metaspace(std::string_view piece) {
  size_t i = 0;
  while (piece.substr(i).starts_with(kMetaspace)) i += kMetaspace.size();
  return i;
}

uint64_t hash_pair(int32_t left, int32_t right) {
  const uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  return (key * 0x9E3779B97F4A7C15ull) >> 20 ^ key;
}

void push_symbol(BpeScratch& s, int32_t id) {
  const auto n = static_cast<int32_t>(s.symbols.size());
  if (n > 0) s.symbols.back().next = n;
  s.symbols.push_back({id, n - 1, -1});
}

// The characters of the word as symbols; what no piece knows becomes bytes, unk, or (as in the reference) nothing.
void split_into_symbols(const BpeModel& m, std::string_view word, BpeScratch& s) {
  bool unk_waits = false;
  const bool decorated = !m.subword_prefix.empty() || !m.word_suffix.empty();
  const auto flush_unk = [&] {
    if (unk_waits) push_symbol(s, *m.unk);
    unk_waits = false;
  };
  for (size_t i = 0; i < word.size();) {
    const CodePoint c = code_point_at(word, i);
    std::string_view character = word.substr(i, static_cast<size_t>(c.size));
    i += character.size();
    std::optional<int32_t> id;
    std::string decorated_text;
    if (decorated) {
      if (i > character.size()) decorated_text = m.subword_prefix;
      decorated_text += character;
      if (i == word.size()) decorated_text += m.word_suffix;
      character = decorated_text;
      id = m.pieces.find(character);
    } else if (c.value < m.short_ids.size()) {
      if (m.short_ids[c.value] >= 0) id = m.short_ids[c.value];
    } else {
      id = m.pieces.find(character);
    }
    if (id) {
      flush_unk();
      push_symbol(s, *id);
      continue;
    }
    const auto known = [&](char b) { return m.byte_ids[static_cast<uint8_t>(b)] >= 0; };
    if (m.byte_fallback && std::ranges::all_of(character, known)) {
      for (const char b : character) push_symbol(s, m.byte_ids[static_cast<uint8_t>(b)]);  // a waiting unk stays behind
      continue;
    }
    if (!m.unk) {
      if (m.unk_token.empty()) continue;
      throw Error(ErrorKind::bad_file,
                  "encode: no piece for '{}', and unk_token '{}' is not in the vocabulary; add it there", character,
                  m.unk_token);
    }
    if (!m.fuse_unk) flush_unk();
    unk_waits = true;
  }
  flush_unk();
}

}  // namespace

// No memory is asked for, no heap kept: of few pairs the least is found by looking.
void merge_few(const BpeModel& m, BpeScratch& s) {
  constexpr uint32_t kNone = UINT32_MAX;
  BpeScratch::Pair* pairs = s.pairs.data();
  size_t n = s.pairs.size();
  const auto look_up = [&](size_t i) {
    const Merge* merge = i + 1 < n ? m.merges.find(pairs[i].id, pairs[i + 1].id) : nullptr;
    pairs[i].rank = merge ? merge->rank : kNone;
    pairs[i].result = merge ? merge->result : -1;
  };
  for (size_t i = 0; i < n; ++i) look_up(i);
  for (;;) {
    size_t least = 0;
    for (size_t i = 1; i < n; ++i)
      if (pairs[i].rank < pairs[least].rank) least = i;
    if (n == 0 || pairs[least].rank == kNone) break;
    pairs[least].id = pairs[least].result;
    for (size_t i = least + 1; i + 1 < n; ++i) pairs[i] = pairs[i + 1];
    --n;
    look_up(least);
    if (least > 0) look_up(least - 1);
  }
  s.pairs.resize(n);
}

void merge_many(const BpeModel& m, BpeScratch& s) {
  const auto later = [](const BpeScratch::Queued& a, const BpeScratch::Queued& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  auto& symbols = s.symbols;
  s.queue.clear();
  const auto offer = [&](int32_t at, int32_t next) {
    const Merge* merge = m.merges.find(symbols[static_cast<size_t>(at)].id, symbols[static_cast<size_t>(next)].id);
    if (merge) s.queue.push_back({merge->rank, at, merge->result});
    return merge != nullptr;
  };
  for (int32_t i = 0; i + 1 < static_cast<int32_t>(symbols.size()); ++i) offer(i, i + 1);
  std::ranges::make_heap(s.queue, later);
  while (!s.queue.empty()) {
    std::ranges::pop_heap(s.queue, later);
    const BpeScratch::Queued top = s.queue.back();
    s.queue.pop_back();
    BpeScratch::Symbol& left = symbols[static_cast<size_t>(top.at)];
    if (left.id < 0 || left.next < 0) continue;
    BpeScratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    // An entry may be stale: it counts if the pair that is there now still makes the same piece (the reference's test).
    const Merge* merge = m.merges.find(left.id, right.id);
    if (!merge || merge->result != top.result) continue;
    left.id = top.result;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].prev = top.at;
    if (left.prev >= 0 && offer(left.prev, top.at)) std::ranges::push_heap(s.queue, later);
    if (left.next >= 0 && offer(top.at, left.next)) std::ranges::push_heap(s.queue, later);
  }
}

void MergeTable::assign(std::span<const Merge> merges) {
  slots_.assign(std::bit_ceil(std::max<size_t>(64, merges.size() * 2)), Merge{-1, -1, -1, 0});
  size_ = 0;
  const size_t mask = slots_.size() - 1;
  for (const Merge& merge : merges) {
    size_t at = hash_pair(merge.left, merge.right) & mask;
    while (slots_[at].left >= 0 && (slots_[at].left != merge.left || slots_[at].right != merge.right))
      at = (at + 1) & mask;
    size_ += slots_[at].left < 0;
    slots_[at] = merge;
  }
}

const Merge* MergeTable::find(int32_t left, int32_t right) const {
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash_pair(left, right) & mask; slots_[at].left >= 0; at = (at + 1) & mask)
    if (slots_[at].left == left && slots_[at].right == right) return &slots_[at];
  return nullptr;
}

void BpeModel::finish() {
  merges.assign(merge_list);
  std::string text;
  for (uint32_t c = 0; c < short_ids.size(); ++c) {
    text.clear();
    append_utf8(text, c);
    short_ids[c] = pieces.find(text).value_or(-1);
  }
  for (int b = 0; b < 256; ++b)
    byte_ids[static_cast<size_t>(b)] = pieces.find(fmt::format("<0x{:02X}>", b)).value_or(-1);
  for (size_t b = 0; b < 256; ++b) spelled_ids[b] = short_ids[byte_level_characters()[b]];
  all_spelled = std::ranges::all_of(spelled_ids, [](int32_t id) { return id >= 0; }) && subword_prefix.empty() &&
                word_suffix.empty();
  cuts_at_metaspace = !byte_level_input && pieces.find(kMetaspace) && !ignore_merges && subword_prefix.empty() &&
                      word_suffix.empty() && std::ranges::none_of(merge_list, [&](const Merge& m) {
                        const std::string_view piece = pieces.text(m.result);
                        const size_t word = first_not_metaspace(piece);
                        return piece.find(kMetaspace, word) != piece.npos;
                      });
}

namespace {

void merge_pairs(const BpeModel& m, BpeScratch& s, std::vector<int32_t>& ids) {
  merge_few(m, s);
  for (const BpeScratch::Pair& pair : s.pairs) ids.push_back(pair.id);
}

}  // namespace

void encode_bpe(const BpeModel& m, std::string_view word, BpeScratch& s, std::vector<int32_t>& ids) {
  if (word.empty()) return;
  const bool spells = m.byte_level_input;
  const std::string_view raw_word = word;
  if (spells && (m.ignore_merges || !m.all_spelled)) {
    s.text.clear();
    append_byte_level(word, s.text);
    word = s.text;
  }
  if (m.ignore_merges)
    if (const auto whole = m.pieces.find(word)) {
      ids.push_back(*whole);
      return;
    }
  if (word.size() >= static_cast<size_t>(INT32_MAX))
    throw Error(ErrorKind::bad_file, "encode: a word of {} bytes, at most {} are read; split the text", word.size(),
                INT32_MAX);
  constexpr size_t kFew = 48;
  s.symbols.clear();
  if (spells && m.all_spelled) {
    if (raw_word.size() <= kFew) {
      s.pairs.clear();
      for (const char b : raw_word) s.pairs.push_back({m.spelled_ids[static_cast<uint8_t>(b)], -1, 0});
      return merge_pairs(m, s, ids);
    }
    for (const char b : raw_word) push_symbol(s, m.spelled_ids[static_cast<uint8_t>(b)]);
  } else {
    split_into_symbols(m, word, s);
    // A prefix inside words makes pieces whose text is not that of their parts; there only the heap is the reference.
    if (s.symbols.size() <= kFew && m.subword_prefix.empty()) {
      s.pairs.clear();
      for (const BpeScratch::Symbol& symbol : s.symbols) s.pairs.push_back({symbol.id, -1, 0});
      return merge_pairs(m, s, ids);
    }
  }
  merge_many(m, s);
  for (const BpeScratch::Symbol& symbol : s.symbols)
    if (symbol.id >= 0) ids.push_back(symbol.id);
}

}  // namespace tern
