// The other files a tokenizer may come in: vocab.json + merges.txt, BERT's vocab.txt, tiktoken ranks,
// tokenizer_config.json.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/tokenizer/byte_level.h"
#include "formats/tokenizer/members.h"
#include "formats/tokenizer/piece_table.h"
#include "formats/tokenizer/read_impl.h"
#include "formats/tokenizer/scan.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {

namespace {

// Merges are found by every cut of a piece, so long pieces would take for ever; the longest known have 128 bytes.
constexpr size_t kMaxRankLine = 2048;

// A line without its end; advances.
std::string_view next_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string quoted(std::string_view text) { return quote_json(text); }

// A piece's id is the number of its line.
nlohmann::json vocab_of_lines(std::string_view words, const std::string& place) {
  nlohmann::json vocab = nlohmann::json::object();
  for (int64_t id = 0; !words.empty(); ++id) {
    const std::string_view word = next_line(words);
    if (word.empty() || !is_valid_utf8(word) || !vocab.emplace(std::string(word), id).second)
      throw Error(ErrorKind::bad_file, "{}: line {}: {}, expected one piece per line", place, id + 1,
                  word.empty()           ? "empty"
                  : !is_valid_utf8(word) ? "not UTF-8"
                                         : fmt::format("'{}' stands there twice", word.substr(0, 80)));
  }
  return vocab;
}

// The post-processor that puts `cls` before a text and `sep` behind each.
Json between(const nlohmann::json& vocab, const std::string& cls, const std::string& sep) {
  const auto special = [](const std::string& text, int type) {
    return Json{{"SpecialToken", {{"id", text}, {"type_id", type}}}};
  };
  const auto sequence = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  Json named = Json::object();
  for (const std::string& text : {cls, sep})
    named[text] = {{"id", text}, {"ids", Json::array({vocab[text]})}, {"tokens", Json::array({text})}};
  return {
      {"type", "TemplateProcessing"},
      {"single", Json::array({special(cls, 0), sequence("A", 0), special(sep, 0)})},
      {"pair", Json::array({special(cls, 0), sequence("A", 0), special(sep, 0), sequence("B", 1), special(sep, 1)})},
      {"special_tokens", named}};
}

// The bytes of each rank; the lines are in the order of ranks.
std::vector<std::string> bytes_of_ranks(std::string_view text, const std::string& place) {
  std::vector<std::string> bytes_of_rank;
  std::string bytes;
  for (size_t line_number = 1; !text.empty(); ++line_number) {
    const std::string_view line = next_line(text);
    if (line.empty()) continue;
    const size_t blank = line.find(' ');
    size_t rank = 0;
    const char* end = line.data() + line.size();
    if (line.size() > kMaxRankLine)
      throw Error(ErrorKind::bad_file, "{}: line {}: {} bytes, expected at most {}; is this a file of ranks?", place,
                  line_number, line.size(), kMaxRankLine);
    const bool good = blank != line.npos && blank > 0 && decode_base64(line.substr(0, blank), bytes) && !bytes.empty();
    if (!good || std::from_chars(line.data() + blank + 1, end, rank).ptr != end || rank != bytes_of_rank.size())
      throw Error(ErrorKind::bad_file, "{}: line {}: '{}'; expected base64, a space and rank {}", place, line_number,
                  line.substr(0, 80), bytes_of_rank.size());
    bytes_of_rank.push_back(bytes);
  }
  if (bytes_of_rank.empty()) throw Error(ErrorKind::bad_file, "{}: no ranks; is the file empty?", place);
  return bytes_of_rank;
}

// Ids by raw bytes first: merges are found by cutting each piece in two.
void add_ranks(BpeModel& model, const std::vector<std::string>& bytes_of_rank, const std::string& place) {
  const auto num_ranks = static_cast<int32_t>(bytes_of_rank.size());
  PieceTable raw;
  for (int32_t rank = 0; rank < num_ranks; ++rank)
    if (!raw.add(bytes_of_rank[static_cast<size_t>(rank)], rank))
      throw Error(ErrorKind::bad_file, "{}: ranks {} and {} have the same bytes", place,
                  raw.find(bytes_of_rank[static_cast<size_t>(rank)]).value_or(-1), rank);
  for (int b = 0; b < 256; ++b)
    if (!raw.find(std::string(1, static_cast<char>(b))))
      throw Error(ErrorKind::bad_file, "{}: byte {} has no rank; some text could not be written in tokens", place, b);
  std::string spelled;
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    const std::string_view piece = bytes_of_rank[static_cast<size_t>(rank)];
    spelled.clear();
    append_byte_level(piece, spelled);
    model.pieces.add(spelled, rank);
    const size_t first = model.merge_list.size();
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      const auto left = raw.find(piece.substr(0, cut)), right = raw.find(piece.substr(cut));
      if (left && right) model.merge_list.push_back({*left, *right, rank, static_cast<uint32_t>(rank)});
    }
    std::sort(model.merge_list.begin() + static_cast<std::ptrdiff_t>(first), model.merge_list.end(),
              [](const Merge& a, const Merge& b) { return std::pair(a.left, a.right) < std::pair(b.left, b.right); });
  }
  model.ignore_merges = true;
}

// Llama 3's special tokens follow the ranks. Source: the tokenizer of Meta's llama3 repository (recalled).
std::vector<std::string> llama3_specials() {
  std::vector<std::string> specials = {"<|begin_of_text|>",
                                       "<|end_of_text|>",
                                       "<|reserved_special_token_0|>",
                                       "<|reserved_special_token_1|>",
                                       "<|reserved_special_token_2|>",
                                       "<|reserved_special_token_3|>",
                                       "<|start_header_id|>",
                                       "<|end_header_id|>",
                                       "<|reserved_special_token_4|>",
                                       "<|eot_id|>"};
  for (int i = 5; i < 256 - 5; ++i) specials.push_back(fmt::format("<|reserved_special_token_{}|>", i));
  return specials;
}

}  // namespace

std::unique_ptr<TokenizerData> read_vocab_and_merges(std::string_view vocab_json, std::string_view merges,
                                                     const std::string& place) {
  auto t = std::make_unique<TokenizerData>();
  t->place = place;
  Json model = {{"type", "BPE"}, {"merges", Json::array()}};
  model["vocab"] = parse_json(vocab_json, place);
  read_bpe_model(model, path_in(place, "model"), t->model);
  const std::string at = path_in(place, "merges.txt");
  for (size_t i = 0; !merges.empty();) {
    const std::string_view line = next_line(merges);
    if (line.starts_with("#version") || (line.empty() && merges.empty())) continue;
    add_merge_line(t->model, line, i++, at);
  }
  // GPT-2's: the file pair says nothing about components, the reference builds these.
  if (t->model.pieces.find("<|endoftext|>"))
    t->added.push_back({*t->model.pieces.find("<|endoftext|>"), "<|endoftext|>", false, false, false, false, true});
  const std::string byte_level =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  set_components(*t, {"null", byte_level, "null", byte_level});
  t->flags_decide = true;
  return t;
}

std::unique_ptr<TokenizerData> read_word_list(std::string_view words, std::string_view config_json,
                                              const std::string& place) {
  const std::string at = "tokenizer_config.json beside " + place;
  const Json config = config_json.empty() ? Json::object() : parse_json(config_json, at);
  require_object(config, at);
  const auto flag = [&](const char* key, bool otherwise) { return read_bool(config, key, otherwise, at); };
  const auto token = [&](const char* key, const char* otherwise) -> std::string {
    const Json* value = find_member(config, key);
    if (value && value->is_object()) return read_string(*value, "content", path_in(at, key));
    return value && !value->is_null() ? read_string(config, key, at) : otherwise;
  };
  const nlohmann::json vocab = vocab_of_lines(words, place);
  const std::string cls = token("cls_token", "[CLS]"), sep = token("sep_token", "[SEP]"),
                    unk = token("unk_token", "[UNK]");
  Json added = Json::array();
  for (const std::string& text : {token("pad_token", "[PAD]"), unk, cls, sep, token("mask_token", "[MASK]")})
    if (const auto found = vocab.find(text); found != vocab.end())
      added.push_back({{"id", *found},
                       {"content", text},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
  for (const std::string& text : {cls, sep})
    if (!vocab.contains(text))
      throw Error(ErrorKind::bad_file, "{}: no line '{}', which stands around every text", place, text);
  const bool lowercase = flag("do_lower_case", true);
  const Json* accents = find_member(config, "strip_accents");
  Json json;
  json["added_tokens"] = added;
  json["normalizer"] = {
      {"type", "BertNormalizer"},
      {"clean_text", true},
      {"handle_chinese_chars", flag("tokenize_chinese_chars", true)},
      {"strip_accents", accents && !accents->is_null() ? flag("strip_accents", lowercase) : lowercase},
      {"lowercase", lowercase}};
  json["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  json["post_processor"] = between(vocab, cls, sep);
  json["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  json["model"] = {{"type", "WordPiece"},
                   {"unk_token", unk},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 100},
                   {"vocab", vocab}};
  return read_tokenizer_json(dump_json(json), place);
}

std::unique_ptr<TokenizerData> read_tiktoken(std::string_view text, const std::string& place) {
  auto t = std::make_unique<TokenizerData>();
  t->place = place;
  const std::vector<std::string> ranks = bytes_of_ranks(text, place);
  const auto num_ranks = static_cast<int32_t>(ranks.size());
  add_ranks(t->model, ranks, place);
  for (const std::string& content : llama3_specials())
    t->added.push_back({num_ranks + static_cast<int32_t>(t->added.size()), content, false, false, false, false, true});
  const std::string split = R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)" +
                            quoted(pattern_of(ScanKind::llama3)) +
                            R"(},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,)"
                            R"("trim_offsets":true,"use_regex":false}]})";
  const std::string around = fmt::format(
      R"({{"type":"TemplateProcessing","single":[{{"SpecialToken":{{"id":"<|begin_of_text|>","type_id":0}}}},)"
      R"({{"Sequence":{{"id":"A","type_id":0}}}}],"pair":[{{"SpecialToken":{{"id":"<|begin_of_text|>","type_id":0}}}},)"
      R"({{"Sequence":{{"id":"A","type_id":0}}}},{{"SpecialToken":{{"id":"<|begin_of_text|>","type_id":1}}}},)"
      R"({{"Sequence":{{"id":"B","type_id":1}}}}],"special_tokens":{{"<|begin_of_text|>":{{"id":"<|begin_of_text|>",)"
      R"("ids":[{}],"tokens":["<|begin_of_text|>"]}}}}}})",
      num_ranks);
  set_components(*t, {"null", split, around,
                      R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})"});
  return t;
}

namespace {

// A token's content: "text", or {"content": "text", …}; empty for null.
std::optional<std::string> token_content(const Json& j, const char* key, const std::string& place) {
  const Json* value = find_member(j, key);
  if (!value) return std::nullopt;
  if (value->is_null()) return "";
  if (value->is_string()) return value->get<std::string>();
  require_object(*value, path_in(place, key));
  return read_string(*value, "content", path_in(place, key));
}

void read_named_tokens(const Json& j, const std::string& place, TokenizerConfig& c) {
  const auto take = [&](const char* key, std::optional<std::string>& into) {
    if (!into) into = token_content(j, key, place);
  };
  take("bos_token", c.bos);
  take("eos_token", c.eos);
  take("unk_token", c.unk);
  take("pad_token", c.pad);
}

}  // namespace

TokenizerConfig read_tokenizer_config(std::string_view text, const std::string& place) {
  TokenizerConfig c;
  const Json j = parse_json(text, place);
  require_object(j, place);
  c.text = text;
  if (find_member(j, "add_bos_token")) c.add_bos = read_bool(j, "add_bos_token", false, place);
  if (find_member(j, "add_eos_token")) c.add_eos = read_bool(j, "add_eos_token", false, place);
  read_named_tokens(j, place, c);
  c.has_chat_template = find_member(j, "chat_template") && !j["chat_template"].is_null();
  c.clean_up = read_bool(j, "clean_up_tokenization_spaces", false, place) &&
               read_bool(j, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", false, place);
  if (const Json* added = find_member(j, "added_tokens_decoder"); added && !added->is_null()) {
    const std::string at = path_in(place, "added_tokens_decoder");
    require_object(*added, at);
    for (auto item = added->begin(); item != added->end(); ++item) {
      int32_t id = -1;
      const char* end = item.key().data() + item.key().size();
      if (std::from_chars(item.key().data(), end, id).ptr != end || id < 0)
        throw Error(ErrorKind::bad_file, "{}: key '{}' is no token id", at, item.key());
      require_object(item.value(), path_in(at, item.key()));
      c.added.push_back(read_added_token(item.value(), id, path_in(at, item.key())));
    }
  }
  return c;
}

void read_special_tokens_map(std::string_view text, const std::string& place, TokenizerConfig& c) {
  const Json j = parse_json(text, place);
  require_object(j, place);
  read_named_tokens(j, place, c);
}

}  // namespace tern
