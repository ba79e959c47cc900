// tokenizer.json: the model, the added tokens, and the whole.
#include <nlohmann/json.hpp>

#include <algorithm>

#include "base/error.h"
#include "formats/tokenizer_impl.h"

namespace tern {

namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 29;
constexpr size_t kMaxAddedBytes = 4096;  // matching looks this far ahead at every position
constexpr size_t kMaxAddedTokens = 1 << 20;

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

}  // namespace

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
  const Json* type = find_member(j, "type");
  if (type && (!type->is_string() || type->get<std::string>() != "BPE"))
    throw Error(ErrorKind::bad_file, "{}: model type {} is not read yet; tern reads BPE", place, type->dump());
  if (!type && !find_member(j, "merges"))
    throw Error(ErrorKind::bad_file, "{}: neither 'type' nor 'merges'; tern reads BPE models", place);
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

AddedToken read_added_token(const Json& j, int32_t id, const std::string& place) {
  AddedToken token{id, read_string(j, "content", place)};
  if (token.content.size() > kMaxAddedBytes)
    throw Error(ErrorKind::bad_file, "{}: an added token of {} bytes, at most {} are read", place, token.content.size(),
                kMaxAddedBytes);
  token.special = read_bool(j, "special", false, place);
  token.single_word = read_bool(j, "single_word", false, place);
  token.lstrip = read_bool(j, "lstrip", false, place);
  token.rstrip = read_bool(j, "rstrip", false, place);
  token.normalized = read_bool(j, "normalized", !token.special, place);
  return token;
}

std::vector<AddedToken> read_added_tokens(const Json& list, const std::string& place) {
  if (!list.is_array()) throw Error(ErrorKind::bad_file, "{}: {} instead of a list", place, list.type_name());
  if (list.size() > kMaxAddedTokens)
    throw Error(ErrorKind::bad_file, "{}: {} added tokens, at most {} are read", place, list.size(), kMaxAddedTokens);
  std::vector<AddedToken> tokens;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string at = place + "[" + std::to_string(i) + "]";
    require_object(list[i], at);
    check_keys(list[i], {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}, at);
    tokens.push_back(read_added_token(list[i], static_cast<int32_t>(read_int(list[i], "id", 0, INT32_MAX, at)), at));
    if (tokens.back().content.empty())
      throw Error(ErrorKind::bad_file, "{}: an empty added token matches everywhere", at);
  }
  return tokens;
}

void set_components(TokenizerData& t, ComponentTexts texts) {
  const auto parse = [&](const std::string& text, const char* key) { return parse_json(text, path_in(t.place, key)); };
  t.normalizers = read_normalizer(parse(texts.normalizer, "normalizer"), path_in(t.place, "normalizer"));
  t.splitters = read_pre_tokenizer(parse(texts.pre_tokenizer, "pre_tokenizer"), path_in(t.place, "pre_tokenizer"));
  t.around = read_post_processor(parse(texts.post_processor, "post_processor"), path_in(t.place, "post_processor"));
  t.decoders = read_decoder(parse(texts.decoder, "decoder"), path_in(t.place, "decoder"));
  t.components = std::move(texts);
}

std::unique_ptr<TokenizerData> read_tokenizer_json(std::string_view text, const std::string& place) {
  auto t = std::make_unique<TokenizerData>();
  t->place = place;
  const Json j = parse_json(text, place, {.max_bytes = kMaxFileBytes});
  require_object(j, place);
  check_keys(j,
             {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
              "decoder", "model"},
             place);
  if (find_member(j, "version") && read_string(j, "version", place) != "1.0")
    throw Error(ErrorKind::bad_file, "{}: version '{}', tern reads 1.0", place, read_string(j, "version", place));
  read_bpe_model(require_member(j, "model", place), path_in(place, "model"), t->model);
  if (const Json* added = find_member(j, "added_tokens"); added && !added->is_null())
    t->added = read_added_tokens(*added, path_in(place, "added_tokens"));
  const auto component = [&](const char* key) {
    const Json* value = find_member(j, key);
    return value ? dump_json(*value) : std::string("null");
  };
  set_components(
      *t, {component("normalizer"), component("pre_tokenizer"), component("post_processor"), component("decoder")});
  return t;
}

}  // namespace tern
