#pragma once
// The vocabulary of a tokenizer: its pieces.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// Finds pieces by id and ids by piece; all pieces lie in one block of text. Ids may have holes.
class PieceTable {
 public:
  void reserve(size_t num_pieces, size_t num_bytes);
  /// False if the text or the id is taken already.
  bool add(std::string_view text, int32_t id);
  std::optional<int32_t> find(std::string_view text) const;
  bool has(int64_t id) const { return id >= 0 && id < num_ids() && index_of_id_[static_cast<size_t>(id)] >= 0; }
  std::string_view text(int64_t id) const;                                       // empty for a hole
  int64_t num_ids() const { return static_cast<int64_t>(index_of_id_.size()); }  // largest id + 1
  int64_t num_pieces() const { return static_cast<int64_t>(id_of_index_.size()); }

 private:
  std::string_view text_of_index(uint32_t index) const {
    return std::string_view(text_).substr(begin_[index], begin_[index + 1] - begin_[index]);
  }
  void grow();

  std::string text_;
  std::vector<uint32_t> begin_{0};
  std::vector<int32_t> id_of_index_, index_of_id_;
  std::vector<uint32_t> slots_;  // index + 1, open addressing
};

/// "▁", SentencePiece's sign for a space.
inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";

}  // namespace tern
