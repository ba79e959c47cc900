// Finding a tokenizer's files, and the last step of every reader: what the parts mean together.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/rng.h"
#include "base/text.h"
#include "formats/gguf/model.h"
#include "formats/gguf/tokenizer.h"
#include "formats/tokenizer/members.h"
#include "formats/tokenizer/read_impl.h"
#include "formats/tokenizer/scan.h"
#include "formats/tokenizer/sentencepiece_file.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {

namespace {

namespace fs = std::filesystem;

class Hasher {
 public:
  void add(std::string_view bytes) {
    state_ = hash_name("\xFF", hash_name(bytes, state_));  // never in UTF-8: "ab","c" differs from "a","bc"
  }
  void add(int64_t n) {
    char bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(n >> (8 * i));
    state_ = hash_name({bytes, 8}, state_);
  }
  std::string hex() const { return fmt::format("{:016x}", state_); }

 private:
  uint64_t state_ = kHashOfNothing;
};

std::string hash_of(const TokenizerData& t) {
  Hasher h;
  for (int64_t id = 0; id < t.model.pieces.num_ids(); ++id) h.add(t.model.pieces.text(id));
  for (const Merge& m : t.model.merge_list) h.add(m.left), h.add(m.right);
  if (t.kind != ModelKind::bpe) {
    h.add(static_cast<int64_t>(t.kind)), h.add(t.word_piece.prefix), h.add(t.word_piece.max_characters);
    h.add(t.word_piece.unk_token), h.add(t.unigram.unk.value_or(-1)), h.add(t.unigram.byte_fallback);
    for (const double score : t.unigram.scores) h.add(std::bit_cast<int64_t>(score));
  }
  if (t.sentencepiece) h.add(write_sentencepiece(*t.sentencepiece));
  for (const bool flag : {t.model.ignore_merges, t.model.byte_fallback, t.model.fuse_unk}) h.add(flag);
  for (const std::string* s :
       {&t.model.unk_token, &t.model.subword_prefix, &t.model.word_suffix, &t.components.normalizer,
        &t.components.pre_tokenizer, &t.components.post_processor, &t.components.decoder})
    h.add(*s);
  for (const AddedToken& a : t.added) {
    h.add(a.id), h.add(a.content);
    for (const bool flag : {a.single_word, a.lstrip, a.rstrip, a.normalized, a.special}) h.add(flag);
  }
  h.add(t.bos.value_or(-1)), h.add(t.eos.value_or(-1));  // packing puts them around documents
  for (const bool flag : {t.adds_bos, t.adds_eos}) h.add(flag);
  return h.hex();
}

// Tokens that only tokenizer_config.json names become added tokens, as in transformers.
void add_named_tokens(TokenizerData& t) {
  const auto has = [&](std::string_view content) {
    return std::ranges::find(t.added, content, &AddedToken::content) != t.added.end();
  };
  for (const AddedToken& token : t.config.added)
    if (!has(token.content)) t.added.push_back(token);
  for (const auto* name : {&t.config.bos, &t.config.eos, &t.config.unk, &t.config.pad}) {
    if (!*name || (*name)->empty() || has(**name)) continue;
    if (const auto id = t.model.pieces.find(**name)) t.added.push_back({*id, **name, false, false, false, false, true});
  }
  std::ranges::stable_sort(t.added, {}, &AddedToken::id);
}

void check_added_tokens(const TokenizerData& t) {
  int64_t largest = 0;
  for (size_t i = 0; i < t.added.size(); ++i) {
    const AddedToken& token = t.added[i];
    largest = std::max<int64_t>(largest, token.id);
    if (i > 0 && t.added[i - 1].id == token.id)
      throw Error(ErrorKind::bad_file, "{}: added tokens '{}' and '{}' have the same id {}", t.place,
                  t.added[i - 1].content, token.content, token.id);
    const auto in_vocab = t.model.pieces.find(token.content);
    if (in_vocab && *in_vocab != token.id)
      throw Error(ErrorKind::bad_file,
                  "{}: added token '{}' has id {}, but {} in the vocabulary; do the files belong together?", t.place,
                  token.content, token.id, *in_vocab);
    if (!in_vocab && t.model.pieces.has(token.id))
      throw Error(ErrorKind::bad_file, "{}: added token '{}' has id {}, which is '{}' in the vocabulary", t.place,
                  token.content, token.id, t.model.pieces.text(token.id));
  }
  std::vector<std::string_view> contents;
  for (const AddedToken& token : t.added) contents.push_back(token.content);
  std::ranges::sort(contents);
  if (const auto twice = std::ranges::adjacent_find(contents); twice != contents.end())
    throw Error(ErrorKind::bad_file, "{}: added token '{}' stands there twice", t.place, *twice);
  check_ids(largest, t.model.pieces.num_pieces() + static_cast<int64_t>(t.added.size()), t.place);
}

std::optional<int32_t> named_id(const TokenizerData& t, const Tokenizer& tokenizer,
                                const std::optional<std::string>& said, const char* key, bool required,
                                std::initializer_list<const char*> usual) {
  if (said) {
    if (said->empty()) return std::nullopt;
    const auto id = tokenizer.id_of(*said);
    if (!id && required)
      throw Error(ErrorKind::bad_file,
                  "{}: {} '{}' of tokenizer_config.json is not in the vocabulary; add it to added_tokens", t.place, key,
                  *said);
    return id;
  }
  for (const char* name : usual)
    if (const auto id = tokenizer.id_of(name); id && tokenizer.is_special(*id)) return id;
  return std::nullopt;
}

void apply_flags(TokenizerData& t) {
  if (!t.flags_decide) return;
  std::string single, specials;
  const auto put = [&](int32_t id, const std::string& content) {
    const std::string name = quote_json(content);
    single += fmt::format(R"({}{{"SpecialToken":{{"id":{},"type_id":0}}}})", single.empty() ? "" : ",", name);
    specials +=
        fmt::format(R"({}{}:{{"id":{},"ids":[{}],"tokens":[{}]}})", specials.empty() ? "" : ",", name, name, id, name);
  };
  if (t.config.add_bos.value_or(false) && t.bos) put(*t.bos, *t.config.bos);
  single += std::string(single.empty() ? "" : ",") + R"({"Sequence":{"id":"A","type_id":0}})";
  const bool same = t.bos && t.eos && *t.bos == *t.eos && t.config.add_bos.value_or(false);
  if (t.config.add_eos.value_or(false) && t.eos) {
    if (same)
      single += R"(,{"SpecialToken":{"id":)" + quote_json(*t.config.eos) + R"(,"type_id":0}})";
    else
      put(*t.eos, *t.config.eos);
  }
  if (specials.empty()) return;
  ComponentTexts texts = t.components;
  texts.post_processor = fmt::format(
      R"({{"type":"TemplateProcessing","single":[{0}],"pair":[{0},{{"Sequence":{{"id":"B","type_id":1}}}}],"special_tokens":{{{1}}}}})",
      single, specials);
  set_components(t, texts);
}

std::string read_text(const fs::path& path) {
  const MappedFile file(path.string());
  const auto bytes = file.bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

TokenizerConfig read_config_beside(const fs::path& directory) {
  TokenizerConfig config;
  const fs::path main = directory / "tokenizer_config.json", map = directory / "special_tokens_map.json";
  if (fs::exists(main)) config = read_tokenizer_config(read_text(main), main.string());
  if (fs::exists(map)) read_special_tokens_map(read_text(map), map.string(), config);
  config.has_chat_template |= fs::exists(directory / "chat_template.jinja");
  return config;
}

// added_tokens.json of old exports beside vocab.json: {"<token>": id}
void read_added_beside(const fs::path& path, TokenizerData& t) {
  if (!fs::exists(path)) return;
  const Json j = parse_json(read_text(path), path.string());
  require_object(j, path.string());
  for (auto item = j.begin(); item != j.end(); ++item) {
    const auto id = static_cast<int32_t>(read_int(j, item.key().c_str(), 0, INT32_MAX, path.string()));
    const bool known = std::ranges::find(t.added, item.key(), &AddedToken::content) != t.added.end();
    if (!known) t.added.push_back({id, item.key(), false, false, false, true, false});
  }
}

Tokenizer load_pair(const fs::path& vocab, const fs::path& merges) {
  if (!fs::exists(merges) || !fs::exists(vocab))
    throw Error(ErrorKind::bad_file, "{}: {} is missing beside it; both are one tokenizer",
                fs::exists(vocab) ? vocab.string() : merges.string(), fs::exists(vocab) ? "merges.txt" : "vocab.json");
  auto t = read_vocab_and_merges(read_text(vocab), read_text(merges), vocab.string());
  read_added_beside(vocab.parent_path() / "added_tokens.json", *t);
  return finish_tokenizer(std::move(t), read_config_beside(vocab.parent_path()));
}

// A file of ranks says neither how text is split nor which special tokens there are; who made the ranks knows. Numbers of
// ranks of others' files: tiktoken's encodings and the models' repositories (recalled); the checksum is of Meta's file.
void require_known_ranks(const std::string& text, const std::string& place) {
  constexpr uint32_t kLlama3 = 0xaf5f45f8;
  constexpr std::pair<int64_t, const char*> kOthers[] = {
      {50256, "GPT-2's (r50k_base)"}, {50280, "p50k_base's"}, {100256, "GPT-4's (cl100k_base)"},
      {151643, "Qwen 1's"},           {163584, "Kimi K2's"},  {199998, "o200k_base's"},
      {200000, "Llama 4's"}};
  std::string lines = replace_all(text, "\r", "");
  while (lines.ends_with('\n')) lines.pop_back();
  if (crc32c(lines) == kLlama3) return;
  const int64_t count = std::ranges::count(lines, '\n') + 1;
  std::string guess;
  for (const auto& [ranks, name] : kOthers)
    if (ranks == count) guess = fmt::format(", as many as {}", name);
  throw Error(
      ErrorKind::bad_file,
      "{}: {} ranks of tiktoken's{}: such a file does not say how text is split or which special tokens there "
      "are, and tern knows it of Llama 3's alone; give the tokenizer.json of the model (transformers writes one)",
      place, count, guess);
}

Tokenizer load_ranks(const fs::path& path) {
  const std::string text = read_text(path);
  // A SentencePiece model is a protocol buffer: its first field is a message (0x0A), its bytes are no text lines.
  const std::string_view head = std::string_view(text).substr(0, 256);
  const bool is_text =
      std::ranges::all_of(head, [](char c) { return c == '\n' || c == '\r' || (c >= ' ' && c <= '~'); });
  if (!is_text)
    return finish_tokenizer(tokenizer_of_sentencepiece(read_sentencepiece(text, path.string()), path.string()),
                            read_config_beside(path.parent_path()));
  auto ranks = read_tiktoken(text, path.string());
  require_known_ranks(text, path.string());
  return finish_tokenizer(std::move(ranks), read_config_beside(path.parent_path()));
}

Tokenizer load_word_list(const fs::path& path) {
  const fs::path config = path.parent_path() / "tokenizer_config.json";
  return finish_tokenizer(
      read_word_list(read_text(path), fs::exists(config) ? read_text(config) : std::string(), path.string()),
      read_config_beside(path.parent_path()));
}

Tokenizer load_json(const fs::path& path) {
  return finish_tokenizer(read_tokenizer_json(read_text(path), path.string()), read_config_beside(path.parent_path()));
}

// What the settings leave open is as the model's own file says.
void settle_config(TokenizerData& t, TokenizerConfig config) {
  for (const auto name : {&TokenizerConfig::bos, &TokenizerConfig::eos, &TokenizerConfig::unk, &TokenizerConfig::pad})
    if (!(config.*name)) config.*name = t.config.*name;
  if (!config.add_bos) config.add_bos = t.config.add_bos;
  if (!config.add_eos) config.add_eos = t.config.add_eos;
  t.config = std::move(config);
}

// Where added tokens are found in text, and how each is written.
void prepare_added_tokens(TokenizerData& t) {
  t.added_of_id.assign(static_cast<size_t>(t.vocab_size), -1);
  bool byte_level_text = false;
  for (const NormalizeStep& step : t.normalizers) byte_level_text |= std::holds_alternative<ByteLevelTextStep>(step);
  TextBudget budget(0);  // of all of them, as all of them are kept
  for (uint32_t i = 0; i < t.added.size(); ++i) {
    const AddedToken& token = t.added[i];
    budget.add(token.content.size());
    t.added_of_id[static_cast<size_t>(token.id)] = static_cast<int32_t>(i);
    const std::string spelling =
        token.normalized && !t.sentencepiece ? normalize(t.normalizers, token.content, budget).text : token.content;
    (token.normalized ? t.normalized_matcher : t.raw_matcher).add(spelling, i);
    // The reference decodes normalized tokens in their normalized spelling. Special ones stand as they are, as in
    // transformers (tokenizers 0.23 alone would write and never skip "▁<s>"), unless decoding undoes the spelling.
    t.decode_content.push_back(byte_level_text || !token.special ? spelling : token.content);
  }
  t.raw_matcher.seal(), t.normalized_matcher.seal();
}

void prepare_model(TokenizerData& t) {
  // A last ByteLevel step spells word by word, after the cache of words has been asked.
  if (t.kind == ModelKind::bpe && !t.splitters.empty())
    if (const auto* last = std::get_if<ByteLevelStep>(&t.splitters.back()); last && !last->add_prefix_space) {
      const bool use_regex = last->use_regex;
      t.splitters.pop_back();
      t.model.byte_level_input = true;
      if (use_regex)
        t.splitters.push_back(SplitStep{Regex(pattern_of(ScanKind::gpt2), t.place), SplitBehavior::isolated, false});
    }
  if (t.kind == ModelKind::bpe) t.model.finish();
  if (t.kind == ModelKind::unigram) t.unigram.finish(t.model.pieces, t.place);
  if (t.kind == ModelKind::word_piece) t.word_piece.finish(t.model.pieces, t.place);

  if (t.splitters.size() == 1)
    if (const auto* only = std::get_if<SplitStep>(&t.splitters.front());
        only && only->behavior == SplitBehavior::isolated)
      t.scanner = only->pattern.scanner();
}

void find_named_tokens(TokenizerData& t, const Tokenizer& tokenizer) {
  t.bos = named_id(t, tokenizer, t.config.bos, "bos_token", true, {"<s>", "<|begin_of_text|>", "<|endoftext|>"});
  t.eos = named_id(t, tokenizer, t.config.eos, "eos_token", true, {"</s>", "<|end_of_text|>", "<|endoftext|>"});
  t.unk = named_id(t, tokenizer, t.config.unk, "unk_token", false, {"<unk>", "[UNK]"});
  t.pad = named_id(t, tokenizer, t.config.pad, "pad_token", false, {"<pad>", "[PAD]"});
  if (!t.config.bos && t.bos) t.config.bos = std::string(tokenizer.piece(*t.bos));
  if (!t.config.eos && t.eos) t.config.eos = std::string(tokenizer.piece(*t.eos));
}

// Whether what stands around every text has BOS in front and EOS behind.
void judge_surroundings(TokenizerData& t, const Tokenizer& tokenizer) {
  bool behind = false;
  for (const TemplateItem& item : t.around) {
    behind |= item.is_text;
    for (const int32_t id : item.ids) {
      if (!tokenizer.has(id))
        throw Error(ErrorKind::bad_file, "{}: post_processor adds id {}, which no piece has", t.place, id);
      t.adds_bos |= !behind && t.bos == id;
      t.adds_eos |= behind && t.eos == id;
    }
  }
}

void add_cleaning_decoders(TokenizerData& t) {
  t.cleaning_decoders = t.decoders;
  t.cleaning_decoders.push_back(FuseDecode{});
  for (const auto& [from, to] : {std::pair{" .", "."},
                                 {" ?", "?"},
                                 {" !", "!"},
                                 {" ,", ","},
                                 {" ' ", "'"},
                                 {" n't", "n't"},
                                 {" 'm", "'m"},
                                 {" 's", "'s"},
                                 {" 've", "'ve"},
                                 {" 're", "'re"}})
    t.cleaning_decoders.push_back(ReplaceDecode{Regex::from_literal(from), to});
}

}  // namespace

Tokenizer finish_tokenizer(std::unique_ptr<TokenizerData> owned, TokenizerConfig config) {
  TokenizerData& t = *owned;
  settle_config(t, std::move(config));
  add_named_tokens(t);
  check_added_tokens(t);
  t.vocab_size = t.model.pieces.num_ids();
  for (const AddedToken& token : t.added) t.vocab_size = std::max<int64_t>(t.vocab_size, token.id + 1);
  if (t.vocab_size == 0) throw Error(ErrorKind::bad_file, "{}: no pieces at all; is this a tokenizer?", t.place);
  prepare_added_tokens(t);
  prepare_model(t);

  const std::shared_ptr<TokenizerData> shared = std::move(owned);
  const Tokenizer tokenizer(shared);
  find_named_tokens(t, tokenizer);
  const bool spelled = t.model.byte_level_input;
  std::vector<SplitTextStep> splitters;
  if (t.flags_decide) splitters = t.splitters;
  apply_flags(t);
  if (t.flags_decide && spelled) t.splitters = std::move(splitters);
  judge_surroundings(t, tokenizer);
  add_cleaning_decoders(t);
  t.hash = hash_of(t);
  return tokenizer;
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view tokenizer_config,
                               const std::string& place) {
  TokenizerConfig config;
  if (!tokenizer_config.empty()) config = read_tokenizer_config(tokenizer_config, "tokenizer_config.json of " + place);
  return finish_tokenizer(read_tokenizer_json(tokenizer_json, place), std::move(config));
}

Tokenizer Tokenizer::load(const fs::path& path) {
  if (is_gguf_path(path.string())) return gguf_tokenizer(Gguf(path.string()));
  if (!fs::exists(path))
    throw Error(ErrorKind::bad_file, "{}: no such file or directory; expected a tokenizer", path.string());
  if (fs::is_directory(path)) {
    const auto has = [&](const char* name) { return fs::exists(path / name); };
    if (has("tokenizer.json")) return load_json(path / "tokenizer.json");
    if (has("vocab.json") || has("merges.txt")) return load_pair(path / "vocab.json", path / "merges.txt");
    if (has("vocab.txt")) return load_word_list(path / "vocab.txt");
    for (const char* name : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"})
      if (has(name)) return load_ranks(path / name);
    throw Error(
        ErrorKind::bad_file,
        "{}: no tokenizer in this directory; expected tokenizer.json, vocab.json with merges.txt, vocab.txt (BERT), "
        "or tokenizer.model (SentencePiece or tiktoken ranks)",
        path.string());
  }
  const std::string name = path.filename().string();
  if (name == "vocab.json" || name == "merges.txt")
    return load_pair(path.parent_path() / "vocab.json", path.parent_path() / "merges.txt");
  if (name == "vocab.txt") return load_word_list(path);
  if (path.extension() == ".json") return load_json(path);
  if (path.extension() == ".model" || path.extension() == ".tiktoken") return load_ranks(path);
  throw Error(ErrorKind::bad_file,
              "{}: not a tokenizer's name; expected tokenizer.json, vocab.json, merges.txt, vocab.txt, *.model, *.gguf",
              path.string());
}

}  // namespace tern
