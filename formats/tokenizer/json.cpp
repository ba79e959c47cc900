// tokenizer.json: the added tokens, and the whole.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/tokenizer/members.h"
#include "formats/tokenizer/read_impl.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {

namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 29;
constexpr size_t kMaxAddedBytes = 4096;  // matching looks this far ahead at every position
constexpr size_t kMaxAddedTokens = 1 << 20;

}  // namespace

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
  if (t.sentencepiece) t.normalizers = {sentencepiece_step(*t.sentencepiece, t.place)};
  t.splitters = read_pre_tokenizer(parse(texts.pre_tokenizer, "pre_tokenizer"), path_in(t.place, "pre_tokenizer"));
  t.around = read_post_processor(parse(texts.post_processor, "post_processor"), path_in(t.place, "post_processor"));
  t.decoders = read_decoder(parse(texts.decoder, "decoder"), path_in(t.place, "decoder"));
  if (t.sentencepiece) decode_as_sentencepiece(*t.sentencepiece, t.decoders);
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
  read_model(require_member(j, "model", place), path_in(place, "model"), *t);
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
