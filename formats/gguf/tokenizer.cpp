// One road to the ids each: byte-level BPE and WordPiece are written as a tokenizer.json and read by its reader, pieces
// with scores become a SentencePiece model.
#include "formats/gguf/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "formats/gguf/split.h"
#include "formats/tokenizer/piece_table.h"
#include "formats/tokenizer/sentencepiece_file.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {
namespace {

constexpr size_t kMostCharsmapBytes = size_t{1} << 27;

class VocabularyReader {
 public:
  explicit VocabularyReader(const Gguf& file) : file_(file) {
    pieces_ = file.get("tokenizer.ggml.tokens").as_strings();
    if (const auto types = file.find("tokenizer.ggml.token_type")) {
      same_length("tokenizer.ggml.token_type", types->size());
      types_ = types->as_i64s();
    }
    for (size_t id = 0; id < types_.size(); ++id)
      if (types_[id] < 1 || types_[id] > 6) fail("tokenizer.ggml.token_type", "piece {} has type {}", id, types_[id]);
  }

  Tokenizer read() {
    const std::string kind(file_.get("tokenizer.ggml.model").as_string());
    if (kind == "gpt2")
      read_byte_level();
    else if (kind == "llama" || kind == "t5")
      return read_sentence_pieces(kind == "t5");
    else if (kind == "bert")
      read_word_pieces();
    else
      fail("tokenizer.ggml.model", "'{}', expected gpt2, llama, bert or t5; take the model's Hugging Face directory",
           kind.substr(0, 60));
    json_["version"] = "1.0";
    json_["truncation"] = json_["padding"] = nullptr;
    json_["added_tokens"] = added_tokens();
    json_["post_processor"] = post_processor();
    return Tokenizer::from_json(dump_json(json_), dump_json(config()), file_.path());
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(std::string_view key, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::bad_file, "{}: key '{}': {}", file_.path(), key,
                fmt::format(format, std::forward<Args>(args)...));
  }
  void same_length(std::string_view key, size_t size) const {
    if (size != 0 && size != pieces_.size())
      fail(key, "{} entries, tokenizer.ggml.tokens has {}", size, pieces_.size());
  }
  int64_t type(size_t id) const { return types_.empty() ? 1 : types_[id]; }
  bool is_added(size_t id) const { return type(id) == 3 || type(id) == 4; }
  // What the text of a piece can be found by: of two alike the first has it.
  Json vocabulary() const {
    nlohmann::json out = nlohmann::json::object();
    for (size_t id = 0; id < pieces_.size(); ++id) {
      if (type(id) == 5) continue;  // unused: never comes out
      const std::string text = checked(id);
      if (!out.emplace(text, id).second) fail("tokenizer.ggml.tokens", "piece {} stands there twice", id);
    }
    return out;
  }
  std::string checked(size_t id) const {
    if (!is_valid_utf8(pieces_[id])) fail("tokenizer.ggml.tokens", "piece {} is not UTF-8", id);
    return std::string(pieces_[id]);
  }

  void read_byte_level() {
    std::vector<std::string> merges;
    for (const std::string_view m : file_.get("tokenizer.ggml.merges").as_strings()) {
      if (!is_valid_utf8(m)) fail("tokenizer.ggml.merges", "merge {} is not UTF-8", merges.size());
      merges.emplace_back(m);
    }
    const auto pre = file_.find("tokenizer.ggml.pre");
    if (!pre)
      fail("tokenizer.ggml.pre", "missing: how text is split before merging stays unknown; convert the model anew");
    const std::string rule(pre->as_string());
    json_["pre_tokenizer"] = gguf_pre_tokenizer(rule);
    if (json_["pre_tokenizer"].is_null())
      fail("tokenizer.ggml.pre", "'{}', a splitting rule tern does not know; take the model's Hugging Face directory",
           rule.substr(0, 60));
    json_["normalizer"] = nullptr;
    if (rule == "qwen2" || rule == "qwen35" || rule == "deepseek-r1-qwen") json_["normalizer"] = {{"type", "NFC"}};
    json_["decoder"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
    json_["model"] = bpe(gguf_takes_whole_words(rule));
    json_["model"]["merges"] = merges;
  }

  bool flag(const char* key, bool fallback) const {
    const auto value = file_.find(key);
    return value ? value->as_bool() : fallback;
  }

  // A piece that begins a word carries "▁" in the file, and one inside a word nothing: the other way about than in
  // tokenizer.json.
  void read_word_pieces() {
    nlohmann::json seen = nlohmann::json::object();
    for (size_t id = 0; id < pieces_.size(); ++id) {
      const std::string text = word_piece(id);
      if (!seen.emplace(text, id).second) fail("tokenizer.ggml.tokens", "piece {} stands there twice", id);
    }
    const bool lowercase = flag("tokenizer.ggml.normalizer.lowercase", true);
    const auto unknown = id("unknown");
    json_["normalizer"] = {{"type", "BertNormalizer"},
                           {"clean_text", true},
                           {"handle_chinese_chars", true},
                           {"strip_accents", flag("tokenizer.ggml.normalizer.strip_accents", lowercase)},
                           {"lowercase", lowercase}};
    json_["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
    json_["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
    json_["model"] = {{"type", "WordPiece"},
                      {"unk_token", unknown ? checked(*unknown) : "[UNK]"},
                      {"continuing_subword_prefix", "##"},
                      {"max_input_chars_per_word", 100},
                      {"vocab", std::move(seen)}};
  }
  std::string word_piece(size_t id) const {
    const std::string text = checked(id);
    if (type(id) != 1) return text;
    return text.starts_with(kMetaspace) ? text.substr(kMetaspace.size()) : "##" + text;
  }

  // SentencePiece's pieces, by its own rules: of equal scores the leftmost pair goes first, which no tokenizer.json
  // says.
  Tokenizer read_sentence_pieces(bool is_unigram) {
    const std::vector<double> scores = scores_of_pieces();
    SentencePieceModel model;
    model.is_unigram = is_unigram;
    model.user_defined_in_normalized = false;
    model.add_dummy_prefix = flag("tokenizer.ggml.add_space_prefix", true);
    model.remove_extra_whitespaces = is_unigram && flag("tokenizer.ggml.remove_extra_whitespaces", false);
    if (const auto rules = file_.find("tokenizer.ggml.precompiled_charsmap"); rules && is_unigram) {
      const std::span<const std::byte> bytes = rules->as_bytes();
      if (bytes.size() > kMostCharsmapBytes)
        fail("tokenizer.ggml.precompiled_charsmap", "{} bytes, at most {} are read", bytes.size(), kMostCharsmapBytes);
      model.charsmap.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    const auto unknown = id("unknown");
    for (size_t i = 0; i < pieces_.size(); ++i) {
      auto what = static_cast<PieceType>(type(i));
      if (unknown && what == PieceType::unknown && i != *unknown) what = PieceType::control;
      if (unknown && i == *unknown) what = PieceType::unknown;
      if (pieces_[i].empty()) fail("tokenizer.ggml.tokens", "piece {} is empty", i);
      model.byte_fallback |= what == PieceType::byte;
      model.pieces.push_back({checked(i), static_cast<float>(scores[i]), what});
    }
    TokenizerConfig said;
    const auto named = [&](const char* name) {
      const auto at = id(name);
      return at ? std::optional(checked(*at)) : std::nullopt;
    };
    said.bos = named("bos"), said.eos = named("eos"), said.pad = named("padding");
    said.add_bos = adds("bos", !is_unigram), said.add_eos = adds("eos", is_unigram);
    return finish_tokenizer(tokenizer_of_sentencepiece(std::move(model), file_.path()), std::move(said));
  }

  std::vector<double> scores_of_pieces() const {
    const GgufValue value = file_.get("tokenizer.ggml.scores");
    if (value.size() != pieces_.size())
      fail("tokenizer.ggml.scores", "{} entries, tokenizer.ggml.tokens has {}", value.size(), pieces_.size());
    std::vector<double> scores = value.as_numbers();
    for (size_t id = 0; id < scores.size(); ++id)
      if (!(scores[id] <= 1e30 && scores[id] >= -1e30)) fail("tokenizer.ggml.scores", "piece {}: {}", id, scores[id]);
    return scores;
  }

  Json bpe(bool ignore_merges) const {
    return {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", ignore_merges},
            {"vocab", vocabulary()},
            {"merges", nullptr}};
  }

  Json added_tokens() const {
    Json out = Json::array();
    for (size_t id = 0; id < pieces_.size(); ++id) {
      if (!is_added(id) && type(id) != 2) continue;
      out.push_back({{"id", id},
                     {"content", checked(id)},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", type(id) != 4}});
    }
    return out;
  }

  // SentencePiece's own names, where a file of its pieces does not say.
  std::optional<size_t> usual_id(std::string_view name) const {
    const std::string_view kind = file_.get("tokenizer.ggml.model").as_string();
    const std::string_view text = name == "bos" ? "<s>" : name == "eos" ? "</s>" : "";
    if ((kind != "llama" && kind != "t5") || text.empty()) return {};
    const auto at = std::ranges::find(pieces_, text);
    if (at == pieces_.end() || type(static_cast<size_t>(at - pieces_.begin())) != 3) return {};
    return static_cast<size_t>(at - pieces_.begin());
  }

  std::optional<size_t> id(const char* name) const {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
    const auto value = file_.find(key);
    if (!value) return usual_id(name);
    if (value->as_i64() == -1 || value->as_i64() == 0xFFFFFFFF) return {};
    if (value->as_i64() < 0 || value->as_u64() >= pieces_.size())
      fail(key, "{}, the vocabulary has {} pieces", value->as_i64(), pieces_.size());
    return value->as_u64();
  }

  bool adds(const char* name, bool fallback) const {
    const auto value = file_.find(fmt::format("tokenizer.ggml.add_{}_token", name));
    return value ? value->as_bool() : fallback;
  }

  Json post_processor() const {
    const std::string_view kind = file_.get("tokenizer.ggml.model").as_string();
    const bool is_bert = kind == "bert";
    const auto first = id(is_bert && id("cls") ? "cls" : "bos");
    const auto last = id(is_bert && id("seperator") ? "seperator" : "eos");  // the format's spelling
    Json single = Json::array(), special = Json::object();
    const auto add = [&](std::optional<size_t> at) {
      const std::string text = checked(*at);
      single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
      special[text] = {{"id", text}, {"ids", Json::array({*at})}, {"tokens", Json::array({text})}};
    };
    if (first && adds("bos", is_bert)) add(first);
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    if (last && adds("eos", is_bert)) add(last);
    if (single.size() == 1) return nullptr;
    Json pair = single;
    for (Json second : single) {
      if (second.contains("Sequence")) second["Sequence"]["id"] = "B";
      pair.push_back(second);
    }
    return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
  }

  Json config() const {
    Json out = Json::object();
    for (const auto& [name, key] :
         {std::pair("bos_token", "bos"), std::pair("eos_token", "eos"), std::pair("unk_token", "unknown"),
          std::pair("pad_token", "padding"), std::pair("cls_token", "cls"), std::pair("sep_token", "seperator"),
          std::pair("mask_token", "mask")})
      if (const auto at = id(key)) out[name] = checked(*at);
    return out;
  }

  const Gguf& file_;
  std::vector<std::string_view> pieces_;
  std::vector<int64_t> types_;
  Json json_;
};

}  // namespace

Tokenizer gguf_tokenizer(const Gguf& file) { return VocabularyReader(file).read(); }

}  // namespace tern
