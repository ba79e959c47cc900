#include "formats/tokenizer/piece_table.h"

#include <algorithm>

#include "base/error.h"
#include "formats/tokenizer/word_cache.h"

namespace tern {
namespace {

uint64_t hash_text(std::string_view s) { return hash_word(s); }

}  // namespace

void PieceTable::reserve(size_t num_pieces, size_t num_bytes) {
  text_.reserve(num_bytes);
  begin_.reserve(num_pieces + 1);
  id_of_index_.reserve(num_pieces);
}

void PieceTable::grow() {
  slots_.assign(std::max<size_t>(64, slots_.size() * 2), 0);
  const size_t mask = slots_.size() - 1;
  for (uint32_t i = 0; i < id_of_index_.size(); ++i) {
    size_t at = hash_text(text_of_index(i)) & mask;
    while (slots_[at] != 0) at = (at + 1) & mask;
    slots_[at] = i + 1;
  }
}

bool PieceTable::add(std::string_view text, int32_t id) {
  if (has(id) || find(text)) return false;
  TERN_CHECK(id >= 0 && text_.size() + text.size() < UINT32_MAX, "PieceTable: id {}, {} bytes", id, text_.size());
  if (static_cast<size_t>(id) >= index_of_id_.size()) index_of_id_.resize(static_cast<size_t>(id) + 1, -1);
  const auto index = static_cast<uint32_t>(id_of_index_.size());
  index_of_id_[static_cast<size_t>(id)] = static_cast<int32_t>(index);
  id_of_index_.push_back(id);
  text_.append(text);
  begin_.push_back(static_cast<uint32_t>(text_.size()));
  if (id_of_index_.size() * 2 > slots_.size()) {
    grow();
  } else {
    size_t at = hash_text(text) & (slots_.size() - 1);
    while (slots_[at] != 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = index + 1;
  }
  return true;
}

std::optional<int32_t> PieceTable::find(std::string_view text) const {
  if (slots_.empty()) return std::nullopt;
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash_text(text) & mask; slots_[at] != 0; at = (at + 1) & mask)
    if (text_of_index(slots_[at] - 1) == text) return id_of_index_[slots_[at] - 1];
  return std::nullopt;
}

std::string_view PieceTable::text(int64_t id) const {
  return has(id) ? text_of_index(static_cast<uint32_t>(index_of_id_[static_cast<size_t>(id)])) : std::string_view();
}

}  // namespace tern
