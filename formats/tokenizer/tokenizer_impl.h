#pragma once
// Inside the tokenizer: the description read from files, and what it becomes.

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/json.h"
#include "formats/tokenizer/added.h"
#include "formats/tokenizer/bpe.h"
#include "formats/tokenizer/decode.h"
#include "formats/tokenizer/normalize.h"
#include "formats/tokenizer/scan.h"
#include "formats/tokenizer/sentencepiece.h"
#include "formats/tokenizer/sentencepiece_file.h"
#include "formats/tokenizer/split.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer/unigram.h"
#include "formats/tokenizer/word_cache.h"
#include "formats/tokenizer/word_piece.h"

namespace tern {

/// An item of what the post-processor builds around the text: ids, or the text's own ids.
struct TemplateItem {
  std::vector<int32_t> ids;
  bool is_text = false;
};

/// The five components as JSON text ("null" where there is none): kept to write them back as they were read.
struct ComponentTexts {
  std::string normalizer = "null", pre_tokenizer = "null", post_processor = "null", decoder = "null";
};

/// What tokenizer_config.json and special_tokens_map.json say that tern uses.
struct TokenizerConfig {
  std::optional<bool> add_bos, add_eos;
  std::optional<std::string> bos, eos, unk, pad;
  std::vector<AddedToken> added;  // added_tokens_decoder
  bool has_chat_template = false;
  bool clean_up = false;
  std::string text;  // the file, to keep its other keys
};

/// Memory that encode calls use one after another.
struct EncodeScratch {
  WordCache cache;
  BpeScratch bpe;
  UnigramScratch unigram;
  WordSplitter words;
  std::vector<AddedMatcher::Part> parts, inner_parts;
};

/// The model that turns a word into ids.
enum class ModelKind { bpe, unigram, word_piece };

/// All that a Tokenizer knows; finish_tokenizer fills the derived part.
struct TokenizerData {
  std::string place;  // names the file in errors
  ModelKind kind = ModelKind::bpe;
  BpeModel model;  // its pieces are the vocabulary of every kind
  UnigramModel unigram;
  WordPieceModel word_piece;
  // What it was made of, if that was a SentencePiece model: its normalizer has no form in tokenizer.json.
  std::shared_ptr<const SentencePieceModel> sentencepiece;
  std::vector<NormalizeStep> normalizers;
  std::vector<SplitTextStep> splitters;
  std::optional<ScanKind> scanner;                      // the splitters together are this one scanner
  std::vector<DecodeStep> decoders, cleaning_decoders;  // the latter end with clean-up
  std::vector<TemplateItem> around;                     // the post-processor: what stands around the text
  std::vector<AddedToken> added;
  ComponentTexts components;
  bool flags_decide = false;  // no post-processor in the files: add_bos_token and add_eos_token say what stands around
  TokenizerConfig config;

  // derived by finish_tokenizer
  AddedMatcher raw_matcher, normalized_matcher;
  std::vector<int32_t> added_of_id;         // index into added, or -1
  std::vector<std::string> decode_content;  // per added token
  int64_t vocab_size = 0;
  std::optional<int32_t> bos, eos, unk, pad;
  bool adds_bos = false, adds_eos = false;
  std::string hash;

  mutable std::mutex scratch_mutex;
  mutable std::vector<std::unique_ptr<EncodeScratch>> scratch;
};

/// Components as JSON text -> steps, matchers, ids; the last step of every reader.
void set_components(TokenizerData&, ComponentTexts);
Tokenizer finish_tokenizer(std::unique_ptr<TokenizerData>, TokenizerConfig);

}  // namespace tern
