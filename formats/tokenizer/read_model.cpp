// The model of tokenizer.json: BPE, Unigram, WordPiece.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "formats/tokenizer/members.h"
#include "formats/tokenizer/piece_table.h"
#include "formats/tokenizer/read_impl.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {

namespace {

void read_vocab(const Json& vocab, const std::string& place, PieceTable& pieces) {
  require_object(vocab, place);
  int64_t largest = -1;
  size_t num_bytes = 0;
  for (auto item = vocab.begin(); item != vocab.end(); ++item) {
    const Json& id = item.value();
    if (!is_token_id(id))
      throw Error(ErrorKind::bad_file, "{}: piece '{}' has id {}; expected a whole number below 2^31", place,
                  item.key(), id.dump());
    largest = std::max(largest, id.get<int64_t>());
    num_bytes += item.key().size();
  }
  check_ids(largest, static_cast<int64_t>(vocab.size()), place);
  pieces.reserve(vocab.size(), num_bytes);
  for (auto item = vocab.begin(); item != vocab.end(); ++item)
    if (!pieces.add(item.key(), item.value().get<int32_t>()))
      throw Error(ErrorKind::bad_file, "{}: id {} belongs to both '{}' and '{}'; ids must be unique", place,
                  item.value().get<int32_t>(), pieces.text(item.value().get<int32_t>()), item.key());
}

int32_t piece_of_merge(const BpeModel& m, std::string_view piece, size_t i, const std::string& place) {
  if (const auto id = m.pieces.find(piece)) return *id;
  throw Error(ErrorKind::bad_file, "{}[{}]: '{}' is not in the vocabulary; do the files belong together?", place, i,
              piece);
}

// [["piece", score], …]; ids are places in the list.
void read_scored_vocab(const Json& vocab, const std::string& place, TokenizerData& t) {
  if (!vocab.is_array()) throw Error(ErrorKind::bad_file, "{}: {} instead of a list", place, vocab.type_name());
  if (vocab.size() > static_cast<size_t>(INT32_MAX))
    throw Error(ErrorKind::bad_file, "{}: {} pieces, fewer than 2^31 are read", place, vocab.size());
  t.unigram.scores.reserve(vocab.size());
  for (size_t i = 0; i < vocab.size(); ++i) {
    const Json& item = vocab[i];
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_number())
      throw Error(ErrorKind::bad_file, "{}[{}]: {}, expected [\"piece\", score]", place, i, item.dump().substr(0, 100));
    const std::string& text = item[0].get_ref<const std::string&>();
    if (!t.model.pieces.add(text, static_cast<int32_t>(i)))
      throw Error(ErrorKind::bad_file, "{}[{}]: '{}' stands there twice; which score counts?", place, i, text);
    t.unigram.scores.push_back(item[1].get<double>());
  }
}

void read_unigram_model(const Json& j, const std::string& place, TokenizerData& t) {
  check_keys(j, {"type", "unk_id", "vocab", "byte_fallback"}, place);
  t.kind = ModelKind::unigram;
  read_scored_vocab(require_member(j, "vocab", place), path_in(place, "vocab"), t);
  const int64_t count = t.model.pieces.num_pieces();
  if (count == 0) throw Error(ErrorKind::bad_file, "{}: no pieces; is the file complete?", path_in(place, "vocab"));
  if (const Json* unk = find_member(j, "unk_id"); unk && !unk->is_null())
    t.unigram.unk = static_cast<int32_t>(read_int(j, "unk_id", 0, count - 1, place));
  t.unigram.byte_fallback = read_bool(j, "byte_fallback", false, place);
}

void read_word_piece_model(const Json& j, const std::string& place, TokenizerData& t) {
  check_keys(j, {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"}, place);
  t.kind = ModelKind::word_piece;
  if (find_member(j, "continuing_subword_prefix"))
    t.word_piece.prefix = read_string(j, "continuing_subword_prefix", place);
  if (find_member(j, "max_input_chars_per_word"))
    t.word_piece.max_characters = read_int(j, "max_input_chars_per_word", 0, INT32_MAX, place);
  t.word_piece.unk_token = find_member(j, "unk_token") ? read_string(j, "unk_token", place) : "[UNK]";
  read_vocab(require_member(j, "vocab", place), path_in(place, "vocab"), t.model.pieces);
}

}  // namespace

void read_model(const Json& j, const std::string& place, TokenizerData& t) {
  require_object(j, place);
  const Json* type = find_member(j, "type");
  // Files of old libraries have no type: the members tell.
  const std::string name = type && type->is_string()     ? type->get<std::string>()
                           : type                        ? type->dump()
                           : find_member(j, "merges")    ? "BPE"
                           : find_member(j, "unk_id")    ? "Unigram"
                           : find_member(j, "unk_token") ? "WordPiece"
                                                         : "";
  if (name == "BPE") return read_bpe_model(j, place, t.model);
  if (name == "Unigram") return read_unigram_model(j, place, t);
  if (name == "WordPiece") return read_word_piece_model(j, place, t);
  if (!type)
    throw Error(ErrorKind::bad_file, "{}: no 'type', no 'merges'; tern reads BPE, Unigram and WordPiece models", place);
  throw Error(ErrorKind::bad_file, "{}: model type '{}' is not one tern reads; it reads BPE, Unigram, WordPiece", place,
              name);
}

void add_merge(BpeModel& m, std::string_view left, std::string_view right, size_t i, const std::string& place) {
  if (right.size() < m.subword_prefix.size())
    throw Error(ErrorKind::bad_file, "{}[{}]: '{}' is shorter than continuing_subword_prefix", place, i, right);
  std::string whole(left);
  whole += right.substr(m.subword_prefix.size());
  m.merge_list.push_back({piece_of_merge(m, left, i, place), piece_of_merge(m, right, i, place),
                          piece_of_merge(m, whole, i, place), static_cast<uint32_t>(i)});
}

void add_merge_line(BpeModel& m, std::string_view line, size_t i, const std::string& place) {
  const size_t blank = line.find(' ');
  if (blank == line.npos || line.find(' ', blank + 1) != line.npos)
    throw Error(ErrorKind::bad_file, "{}[{}]: '{}', expected two pieces with one space between", place, i,
                line.substr(0, 100));
  add_merge(m, line.substr(0, blank), line.substr(blank + 1), i, place);
}

void check_ids(int64_t largest_id, int64_t num_pieces, const std::string& place) {
  if (largest_id > 4 * num_pieces + 65536)
    throw Error(ErrorKind::bad_file, "{}: {} pieces but ids up to {}; nearly all rows of a model would be unused",
                place, num_pieces, largest_id);
}

void read_bpe_model(const Json& j, const std::string& place, BpeModel& m) {
  require_object(j, place);
  check_keys(j,
             {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
              "byte_fallback", "ignore_merges", "vocab", "merges"},
             place);
  if (const Json* dropout = find_member(j, "dropout"); dropout && !dropout->is_null()) {
    if (!dropout->is_number() || dropout->get<double>() != 0.0)
      throw Error(ErrorKind::bad_file, "{}.dropout: {} makes ids random; set it to null", place, dropout->dump());
  }
  const auto optional_string = [&](const char* key) {
    const Json* value = find_member(j, key);
    return value && !value->is_null() ? read_string(j, key, place) : std::string();
  };
  m.unk_token = optional_string("unk_token");
  m.subword_prefix = optional_string("continuing_subword_prefix");
  m.word_suffix = optional_string("end_of_word_suffix");
  m.fuse_unk = read_bool(j, "fuse_unk", false, place);
  m.byte_fallback = read_bool(j, "byte_fallback", false, place);
  m.ignore_merges = read_bool(j, "ignore_merges", false, place);
  read_vocab(require_member(j, "vocab", place), path_in(place, "vocab"), m.pieces);
  if (!m.unk_token.empty()) m.unk = m.pieces.find(m.unk_token);

  const Json& merges = require_member(j, "merges", place);
  const std::string at = path_in(place, "merges");
  if (!merges.is_array()) throw Error(ErrorKind::bad_file, "{}: {} instead of a list", at, merges.type_name());
  m.merge_list.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const Json& merge = merges[i];
    if (merge.is_string()) {
      add_merge_line(m, merge.get_ref<const std::string&>(), i, at);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      add_merge(m, merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(), i, at);
    } else {
      throw Error(ErrorKind::bad_file, "{}[{}]: {}, expected \"a b\" or [\"a\", \"b\"]", at, i,
                  merge.dump().substr(0, 100));
    }
  }
}

}  // namespace tern
