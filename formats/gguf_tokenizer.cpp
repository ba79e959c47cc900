// Written as a tokenizer.json and read by its reader: one road to the ids.
#include "formats/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "formats/bpe.h"
#include "formats/gguf_vocabulary.h"

namespace tern {
namespace {

constexpr size_t kLongestPiece = 512;  // of which every cut is tried; longer ones are added tokens in every vocabulary

class VocabularyReader {
 public:
  explicit VocabularyReader(const Gguf& file) : file_(file) {
    pieces_ = file.get("tokenizer.ggml.tokens").as_strings();
    if (const auto types = file.find("tokenizer.ggml.token_type")) types_ = types->as_i64s();
    same_length("tokenizer.ggml.token_type", types_.size());
  }

  Tokenizer read() {
    const std::string kind(file_.get("tokenizer.ggml.model").as_string());
    if (kind == "gpt2")
      read_byte_level();
    else if (kind == "llama")
      read_sentence_pieces();
    else
      fail("tokenizer.ggml.model", "'{}', expected gpt2 or llama; take the model's Hugging Face directory", kind);
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
    const std::string rule = pre ? std::string(pre->as_string()) : "gpt-2";
    const std::string_view pattern = gguf_split_pattern(rule);
    if (pattern.empty() && rule != "gpt-2" && rule != "default")
      fail("tokenizer.ggml.pre", "'{}', a splitting rule tern does not know; take the model's Hugging Face directory",
           rule);
    const Json bytes = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", pattern.empty()}};
    json_["normalizer"] = nullptr;
    if (rule == "qwen2") json_["normalizer"] = {{"type", "NFC"}};
    json_["pre_tokenizer"] = bytes;
    if (!pattern.empty())
      json_["pre_tokenizer"] = {{"type", "Sequence"},
                                {"pretokenizers", Json::array({Json{{"type", "Split"},
                                                                    {"pattern", Json{{"Regex", pattern}}},
                                                                    {"behavior", "Isolated"},
                                                                    {"invert", false}},
                                                               bytes})}};
    json_["decoder"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
    json_["model"] = bpe(rule == "llama-bpe", false);
    json_["model"]["merges"] = merges;
  }

  void read_sentence_pieces() {
    const auto prefix = file_.find("tokenizer.ggml.add_space_prefix");
    const bool adds_space = !prefix || prefix->as_bool();
    Json normalizers = Json::array();
    if (adds_space) normalizers.push_back({{"type", "Prepend"}, {"prepend", kMetaspace}});
    normalizers.push_back({{"type", "Replace"}, {"pattern", Json{{"String", " "}}}, {"content", kMetaspace}});
    json_["normalizer"] = {{"type", "Sequence"}, {"normalizers", normalizers}};
    json_["pre_tokenizer"] = nullptr;
    Json decoders = Json::array({Json{{"type", "Replace"}, {"pattern", Json{{"String", kMetaspace}}}, {"content", " "}},
                                 Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}}});
    if (adds_space) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    json_["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
    json_["model"] = bpe(false, true);
    json_["model"]["merges"] = merges_of_scores();
  }

  Json bpe(bool ignore_merges, bool byte_fallback) const {
    Json unk = nullptr;
    if (byte_fallback)
      for (size_t id = 0; id < pieces_.size() && unk.is_null(); ++id)
        if (type(id) == 2) unk = checked(id);
    return {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", unk},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", byte_fallback},
            {"byte_fallback", byte_fallback},
            {"ignore_merges", ignore_merges},
            {"vocab", vocabulary()},
            {"merges", nullptr}};
  }

  Json merges_of_scores() const {
    const std::vector<double> scores = file_.get("tokenizer.ggml.scores").as_numbers();
    if (scores.size() != pieces_.size())
      fail("tokenizer.ggml.scores", "{} entries, tokenizer.ggml.tokens has {}", scores.size(), pieces_.size());
    std::unordered_map<std::string_view, size_t> id_of;
    for (size_t id = 0; id < pieces_.size(); ++id)
      if (type(id) == 1 || type(id) == 4) id_of.emplace(pieces_[id], id);
    std::vector<std::tuple<double, size_t, size_t, size_t>> found;  // minus score, piece, parts
    for (size_t id = 0; id < pieces_.size(); ++id) {
      const std::string_view piece = pieces_[id];
      if (type(id) != 1 || piece.size() > kLongestPiece) continue;
      if (!(scores[id] <= 1e30 && scores[id] >= -1e30)) fail("tokenizer.ggml.scores", "piece {}: {}", id, scores[id]);
      for (size_t cut = 1; cut < piece.size(); ++cut) {
        if ((static_cast<unsigned char>(piece[cut]) & 0xC0) == 0x80) continue;  // within a character
        const auto left = id_of.find(piece.substr(0, cut)), right = id_of.find(piece.substr(cut));
        if (left != id_of.end() && right != id_of.end())
          found.emplace_back(-scores[id], id, left->second, right->second);
      }
    }
    std::sort(found.begin(), found.end());
    Json merges = Json::array();
    for (const auto& [score, id, left, right] : found)
      merges.push_back(Json::array({std::string(pieces_[left]), std::string(pieces_[right])}));
    return merges;
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

  std::optional<size_t> id(const char* name) const {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
    const auto value = file_.find(key);
    if (!value || value->as_i64() == -1 || value->as_i64() == 0xFFFFFFFF) return {};
    if (value->as_i64() < 0 || value->as_u64() >= pieces_.size())
      fail(key, "{}, the vocabulary has {} pieces", value->as_i64(), pieces_.size());
    return value->as_u64();
  }

  bool adds(const char* name, bool fallback) const {
    const auto value = file_.find(fmt::format("tokenizer.ggml.add_{}_token", name));
    return value ? value->as_bool() : fallback;
  }

  Json post_processor() const {
    const bool is_llama = file_.get("tokenizer.ggml.model").as_string() == "llama";
    Json single = Json::array(), special = Json::object();
    const auto add = [&](std::optional<size_t> at) {
      const std::string text = checked(*at);
      single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
      special[text] = {{"id", text}, {"ids", Json::array({*at})}, {"tokens", Json::array({text})}};
    };
    if (id("bos") && adds("bos", is_llama)) add(id("bos"));
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    if (id("eos") && adds("eos", false)) add(id("eos"));
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
    for (const auto& [name, key] : {std::pair("bos_token", "bos"), std::pair("eos_token", "eos"),
                                    std::pair("unk_token", "unknown"), std::pair("pad_token", "padding")})
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
