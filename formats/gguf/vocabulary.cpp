#include "formats/gguf/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "formats/gguf/split.h"
#include "formats/gguf/write.h"
#include "formats/tokenizer/normal_form.h"
#include "formats/tokenizer/piece_table.h"
#include "formats/tokenizer/sentencepiece_file.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {
namespace {

[[noreturn]] void not_in_gguf(std::string_view what) {
  throw Error(ErrorKind::usage,
              "GGUF: {}, for which tern knows no name there; export to --format hf, or without the vocabulary's file",
              what);
}

// The name of a byte-level pre-tokenizer; "" if it is no such.
std::string split_name(const TokenizerData& t) {
  if (t.components.pre_tokenizer.find("\"ByteLevel\"") == std::string::npos) return "";
  const Json pre = parse_json(t.components.pre_tokenizer, t.place);
  std::string name = gguf_pre_name(pre, t.model.ignore_merges);
  if (!name.empty()) return name;
  if (pre.is_object() && pre.value("type", "") == "ByteLevel" && pre.value("add_prefix_space", true))
    not_in_gguf("the tokenizer puts a space before every text");
  not_in_gguf("the tokenizer splits words by a rule of its own");
}

// Whether these are SentencePiece's spaces and nothing else; and whether one stands before the text.
bool is_metaspace(const TokenizerData& t, bool& prefix) {
  prefix = false;
  for (const NormalizeStep& step : t.normalizers) {
    if (const auto* s = std::get_if<SentencePieceStep>(&step)) {
      if (s->map || s->suffix || s->remove_extra || !s->escape || s->keeps_some) return false;
      prefix = s->prefix;
      continue;
    }
    if (const auto* p = std::get_if<PrependStep>(&step); p && p->text == kMetaspace)
      prefix = true;
    else if (const auto* r = std::get_if<ReplaceStep>(&step); !r || r->content != kMetaspace)
      return false;
  }
  for (const SplitTextStep& step : t.splitters) {
    const auto* m = std::get_if<MetaspaceStep>(&step);
    if (!m || m->replacement != kMetaspace) return false;
    prefix = m->scheme != PrependScheme::never;
  }
  return !t.normalizers.empty() || !t.splitters.empty();
}

bool is_nfc(const TokenizerData& t) {
  const auto* u = t.normalizers.size() == 1 ? std::get_if<UnicodeStep>(&t.normalizers[0]) : nullptr;
  return u && u->form == NormalForm::nfc;
}

// Whether merging alone makes every piece that is a whole word: then it does not matter who looks words up first.
bool merges_make_every_piece(const TokenizerData& t) {
  BpeModel model = t.model;
  model.ignore_merges = false;
  BpeScratch scratch;
  std::vector<int32_t> ids;
  for (int64_t id = 0; id < model.pieces.num_ids(); ++id) {
    if (!model.pieces.has(id) || t.added_of_id[static_cast<size_t>(id)] >= 0) continue;
    ids.clear();
    encode_bpe(model, model.pieces.text(id), scratch, ids);
    if (ids != std::vector<int32_t>{static_cast<int32_t>(id)}) return false;
  }
  return true;
}

struct Pieces {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::vector<float> scores;
};

Pieces pieces_of(const Tokenizer& tokenizer, int64_t vocab_size) {
  const TokenizerData& t = tokenizer.data();
  Pieces p;
  std::unordered_map<int32_t, float> score_of;  // a piece goes by its earliest merge
  for (const Merge& m : t.model.merge_list) score_of.emplace(m.result, -static_cast<float>(m.rank) - 1);
  for (int64_t id = 0; id < vocab_size; ++id) {
    const auto at = static_cast<int32_t>(id);
    std::string text = fmt::format("[PAD{}]", id);
    PieceType type = PieceType::unused;
    if (tokenizer.has(id)) {
      text = tokenizer.piece(id);
      type = PieceType::normal;
      if (tokenizer.is_special(id))
        type = PieceType::control;
      else if (id < static_cast<int64_t>(t.added_of_id.size()) && t.added_of_id[static_cast<size_t>(id)] >= 0)
        type = PieceType::user_defined;
      else if (t.model.byte_fallback && text.size() == 6 && text.starts_with("<0x") && text.ends_with('>'))
        type = PieceType::byte;
      if (t.model.byte_fallback && tokenizer.unk() == at) type = PieceType::unknown;
    }
    p.texts.push_back(std::move(text));
    p.types.push_back(static_cast<int32_t>(type));
    const auto found = score_of.find(at);
    // What no merge makes is a single character: it competes with nothing.
    p.scores.push_back(found != score_of.end() ? found->second : 0.0f);
  }
  return p;
}

}  // namespace

std::vector<std::string> add_gguf_vocabulary(GgufMetadata& m, const Tokenizer& tokenizer, int64_t vocab_size) {
  const TokenizerData& t = tokenizer.data();
  if (t.kind != ModelKind::bpe) not_in_gguf("the tokenizer is no BPE");
  const std::string split = split_name(t);
  bool prefix = false;
  if (split.empty() && !(t.model.byte_fallback && is_metaspace(t, prefix)))
    not_in_gguf("the tokenizer is neither byte-level BPE nor BPE with byte fallback");
  // llama.cpp normalizes no text; what Qwen's tokenizer does is known by the rule's name, and left out there.
  if (!split.empty() && !t.normalizers.empty() && !(split == "qwen2" && is_nfc(t)))
    not_in_gguf("the tokenizer normalizes texts");
  if (!split.empty() && t.model.ignore_merges != gguf_takes_whole_words(split) && !merges_make_every_piece(t))
    not_in_gguf("the tokenizer has words that its merges do not make");
  const Pieces p = pieces_of(tokenizer, vocab_size);
  m.add("tokenizer.ggml.model", split.empty() ? "llama" : "gpt2");
  m.add("tokenizer.ggml.pre", split.empty() ? "default" : split);
  m.add("tokenizer.ggml.tokens", p.texts);
  m.add("tokenizer.ggml.token_type", p.types);
  if (split.empty()) {
    m.add("tokenizer.ggml.scores", p.scores);
    m.add("tokenizer.ggml.add_space_prefix", prefix);
  } else {
    std::vector<std::string> merges;
    for (const Merge& merge : t.model.merge_list)
      merges.push_back(fmt::format("{} {}", t.model.pieces.text(merge.left), t.model.pieces.text(merge.right)));
    m.add("tokenizer.ggml.merges", merges);
  }
  const auto id = [&](const char* key, std::optional<int32_t> value) {
    if (value && *value < vocab_size) m.add(key, static_cast<uint32_t>(*value));
  };
  id("tokenizer.ggml.bos_token_id", tokenizer.bos());
  id("tokenizer.ggml.eos_token_id", tokenizer.eos());
  id("tokenizer.ggml.unknown_token_id", tokenizer.unk());
  id("tokenizer.ggml.padding_token_id", tokenizer.pad());
  m.add("tokenizer.ggml.add_bos_token", tokenizer.adds_bos());
  m.add("tokenizer.ggml.add_eos_token", tokenizer.adds_eos());
  std::vector<std::string> notes;
  for (const AddedToken& a : t.added)
    if (a.lstrip || a.rstrip || a.single_word || (a.normalized && !t.normalizers.empty()))
      notes.push_back(
          fmt::format("added token {}: how it meets its neighbours (lstrip, rstrip, single_word, normalized) "
                      "has no name in GGUF and is left out",
                      quote_json(a.content)));
  return notes;
}

}  // namespace tern
