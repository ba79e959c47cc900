#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/io.h"
#include "formats/tokenizer/piece_table.h"
#include "formats/tokenizer/sentencepiece_file.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {

namespace {

const char* spell(bool b) { return b ? "true" : "false"; }
std::string string_or_null(const std::string& s) { return s.empty() ? "null" : quote_json(s); }

void add_vocab(const PieceTable& pieces, std::string& out) {
  out += "\"vocab\": {";
  bool first = true;
  for (int64_t id = 0; id < pieces.num_ids(); ++id) {
    if (!pieces.has(id)) continue;
    out += fmt::format("{}\n      {}: {}", first ? "" : ",", quote_json(pieces.text(id)), id);
    first = false;
  }
  out += "\n    }";
}

void add_bpe_model(const TokenizerData& t, std::string& out) {
  out += fmt::format(
      "\"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": {},\n"
      "    \"continuing_subword_prefix\": {},\n    \"end_of_word_suffix\": {},\n    \"fuse_unk\": {},\n"
      "    \"byte_fallback\": {},\n    \"ignore_merges\": {},\n    ",
      string_or_null(t.model.unk_token), string_or_null(t.model.subword_prefix), string_or_null(t.model.word_suffix),
      spell(t.model.fuse_unk), spell(t.model.byte_fallback), spell(t.model.ignore_merges));
  add_vocab(t.model.pieces, out);
  out += ",\n    \"merges\": [";
  for (size_t i = 0; i < t.model.merge_list.size(); ++i) {
    const Merge& m = t.model.merge_list[i];
    out += fmt::format("{}\n      [{}, {}]", i ? "," : "", quote_json(t.model.pieces.text(m.left)),
                       quote_json(t.model.pieces.text(m.right)));
  }
  out += "\n    ]";
}

void add_unigram_model(const TokenizerData& t, std::string& out) {
  out += fmt::format("\"type\": \"Unigram\",\n    \"unk_id\": {},\n    \"byte_fallback\": {},\n    \"vocab\": [",
                     t.unigram.unk ? std::to_string(*t.unigram.unk) : "null", spell(t.unigram.byte_fallback));
  for (size_t id = 0; id < t.unigram.scores.size(); ++id)
    out += fmt::format("{}\n      [{}, {}]", id ? "," : "", quote_json(t.model.pieces.text(static_cast<int64_t>(id))),
                       t.unigram.scores[id]);
  out += "\n    ]";
}

void add_word_piece_model(const TokenizerData& t, std::string& out) {
  out += fmt::format(
      "\"type\": \"WordPiece\",\n    \"unk_token\": {},\n    \"continuing_subword_prefix\": {},\n"
      "    \"max_input_chars_per_word\": {},\n    ",
      quote_json(t.word_piece.unk_token), quote_json(t.word_piece.prefix), t.word_piece.max_characters);
  add_vocab(t.model.pieces, out);
}

}  // namespace

std::string Tokenizer::to_json() const {
  const TokenizerData& t = *data_;
  if (t.sentencepiece)
    throw Error(ErrorKind::bad_file,
                "{}: a SentencePiece model has no exact tokenizer.json; save it as tokenizer.model", t.place);
  std::string out = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [";
  const auto add = [&](const std::string& text) { out += text; };
  for (size_t i = 0; i < t.added.size(); ++i) {
    const AddedToken& a = t.added[i];
    add(
        fmt::format("{}\n    {{\"id\": {}, \"content\": {}, \"single_word\": {}, \"lstrip\": {}, \"rstrip\": {}, "
                    "\"normalized\": {}, \"special\": {}}}",
                    i ? "," : "", a.id, quote_json(a.content), spell(a.single_word), spell(a.lstrip), spell(a.rstrip),
                    spell(a.normalized), spell(a.special)));
  }
  add(fmt::format(
      "\n  ],\n  \"normalizer\": {},\n  \"pre_tokenizer\": {},\n  \"post_processor\": {},\n  \"decoder\": {},\n",
      t.components.normalizer, t.components.pre_tokenizer, t.components.post_processor, t.components.decoder));
  add("  \"model\": {\n    ");
  switch (t.kind) {
    case ModelKind::bpe:
      add_bpe_model(t, out);
      break;
    case ModelKind::unigram:
      add_unigram_model(t, out);
      break;
    case ModelKind::word_piece:
      add_word_piece_model(t, out);
      break;
  }
  return out += "\n  }\n}\n";
}

std::string Tokenizer::config_json() const {
  const TokenizerData& t = *data_;
  Json j = t.config.text.empty() ? Json::object() : parse_json(t.config.text, "tokenizer_config.json");
  // The class that reads tokenizer.json as it stands; others would build their own components (transformers 5).
  if (!t.sentencepiece)
    j["tokenizer_class"] = "PreTrainedTokenizerFast";
  else if (!j.contains("tokenizer_class"))
    j["tokenizer_class"] = t.kind == ModelKind::unigram ? "T5Tokenizer" : "LlamaTokenizer";
  if (t.sentencepiece) j["add_bos_token"] = t.adds_bos, j["add_eos_token"] = t.adds_eos;
  const auto name = [&](const char* key, const std::optional<int32_t>& id) {
    if (id)
      j[key] = std::string(piece(*id));
    else
      j.erase(key);
  };
  name("bos_token", t.bos);
  name("eos_token", t.eos);
  name("unk_token", t.unk);
  name("pad_token", t.pad);
  j.erase("added_tokens_decoder");  // all of them stand in tokenizer.json
  if (!j.contains("clean_up_tokenization_spaces")) j["clean_up_tokenization_spaces"] = false;
  return dump_json(j, 2) + "\n";
}

void Tokenizer::save(const std::filesystem::path& directory, Io& io) const {
  make_dirs(io, directory.string());
  if (data_->sentencepiece)
    write_file_atomically(io, (directory / "tokenizer.model").string(), write_sentencepiece(*data_->sentencepiece));
  else
    write_file_atomically(io, (directory / "tokenizer.json").string(), to_json());
  write_file_atomically(io, (directory / "tokenizer_config.json").string(), config_json());
}

}  // namespace tern
