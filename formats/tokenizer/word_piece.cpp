#include "formats/tokenizer/word_piece.h"

#include "base/error.h"
#include "base/utf8.h"
#include "formats/tokenizer/bpe.h"
#include "formats/tokenizer/piece_table.h"

namespace tern {

void WordPieceModel::finish(const PieceTable& pieces, const std::string& place) {
  const auto add = [&](ByteTrie& trie, std::string_view text, int64_t id) {
    if (!trie.add(text, static_cast<int32_t>(id)))
      throw Error(ErrorKind::bad_file, "{}: the pieces have too many beginnings, at most {} are read", place,
                  ByteTrie::kMaxNodes);
  };
  for (int64_t id = 0; id < pieces.num_ids(); ++id) {
    const std::string_view text = pieces.text(id);
    if (text.empty()) continue;
    add(at_front, text, id);
    if (text.starts_with(prefix) && text.size() > prefix.size()) add(inside, text.substr(prefix.size()), id);
  }
  unk = pieces.find(unk_token);
}

void encode_word_piece(const WordPieceModel& m, std::string_view word, TextBudget& budget, std::vector<int32_t>& ids) {
  const size_t first = ids.size();
  bool known =
      word.size() <= static_cast<size_t>(m.max_characters) || count_utf8(word) <= static_cast<size_t>(m.max_characters);
  for (size_t begin = 0; known && begin < word.size();) {
    const ByteTrie& trie = begin == 0 ? m.at_front : m.inside;
    size_t piece_end = 0, end = begin;
    int32_t piece = -1;
    uint32_t node = ByteTrie::kRoot;
    while (end < word.size()) {
      node = trie.child(node, static_cast<uint8_t>(word[end++]));
      if (node == ByteTrie::kRoot) break;
      if (const int32_t id = trie.value(node); id >= 0) piece = id, piece_end = end;
    }
    budget.spend_work(end - begin, "finding pieces");
    known = piece >= 0;
    if (known) ids.push_back(piece), begin = piece_end;
  }
  if (known) return;
  ids.resize(first);
  if (!m.unk)
    throw Error(ErrorKind::bad_file,
                "encode: no pieces for '{}', and unk_token '{}' is not in the vocabulary; add it there",
                word.substr(0, 40), m.unk_token);
  ids.push_back(*m.unk);
}

}  // namespace tern
