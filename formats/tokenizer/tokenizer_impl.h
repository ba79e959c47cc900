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
#include "formats/tokenizer/sentencepiece.h"
#include "formats/tokenizer/steps.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer/unigram.h"
#include "formats/tokenizer/word_cache.h"
#include "formats/tokenizer/word_piece.h"

namespace tern {

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

struct EncodeScratch {
  WordCache cache;
  BpeScratch bpe;
  UnigramScratch unigram;
  WordSplitter words;
  std::vector<AddedMatcher::Part> parts, inner_parts;
};

enum class ModelKind { bpe, unigram, word_piece };

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
  std::optional<ScanKind> scanner;                      // all of the splitters is this one scanner
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

// ---- reading (each throws Error(bad_file) that begins with `place`) ----

/// Ids must be dense enough: a file of a few bytes must not ask for gigabytes.
void check_ids(int64_t largest_id, int64_t num_pieces, const std::string& place);
std::vector<NormalizeStep> read_normalizer(const Json&, const std::string& place);
std::vector<SplitTextStep> read_pre_tokenizer(const Json&, const std::string& place);
std::vector<DecodeStep> read_decoder(const Json&, const std::string& place);
/// Turns the steps of a SentencePiece model's like in tokenizer.json into the library's own.
/// Source  sentencepiece 0.2.3, SentencePieceProcessor::Decode.
void decode_as_sentencepiece(const SentencePieceModel&, std::vector<DecodeStep>&);
std::vector<TemplateItem> read_post_processor(const Json&, const std::string& place);
std::vector<AddedToken> read_added_tokens(const Json&, const std::string& place);
void read_model(const Json&, const std::string& place, TokenizerData&);
void read_bpe_model(const Json&, const std::string& place, BpeModel&);
TokenizerConfig read_tokenizer_config(std::string_view text, const std::string& place);
void read_special_tokens_map(std::string_view text, const std::string& place, TokenizerConfig&);

/// tokenizer.json as a whole.
std::unique_ptr<TokenizerData> read_tokenizer_json(std::string_view text, const std::string& place);
/// GPT-2's pair of files, with GPT-2's components.
std::unique_ptr<TokenizerData> read_vocab_and_merges(std::string_view vocab_json, std::string_view merges,
                                                     const std::string& place);
/// BERT's list of pieces, one per line, with BERT's components as tokenizer_config.json (may be empty) sets them.
std::unique_ptr<TokenizerData> read_word_list(std::string_view words, std::string_view config_json,
                                              const std::string& place);
/// Lines of base64 and rank, with Llama 3's pattern and special tokens.
std::unique_ptr<TokenizerData> read_tiktoken(std::string_view text, const std::string& place);

AddedToken read_added_token(const Json&, int32_t id, const std::string& place);
/// One merge by its two pieces, or as the line "left right".
void add_merge(BpeModel&, std::string_view left, std::string_view right, size_t i, const std::string& place);
void add_merge_line(BpeModel&, std::string_view line, size_t i, const std::string& place);

/// Components as JSON text -> steps, matchers, ids; the last step of every reader.
void set_components(TokenizerData&, ComponentTexts);
Tokenizer finish_tokenizer(std::unique_ptr<TokenizerData>, TokenizerConfig);

/// Members of a JSON object by key, with errors that name place and key.
std::string path_in(const std::string& place, std::string_view key);
const Json* find_member(const Json& object, const char* key);
const Json& require_member(const Json& object, const char* key, const std::string& place);
std::string read_string(const Json& object, const char* key, const std::string& place);
bool read_bool(const Json& object, const char* key, std::optional<bool> fallback, const std::string& place);
int64_t read_int(const Json& object, const char* key, int64_t low, int64_t high, const std::string& place);
void require_object(const Json&, const std::string& place);
bool decode_base64(std::string_view text, std::string& out);  // false: it is none
bool is_token_id(const Json&);                                // a whole number in [0, 2^31)
void check_keys(const Json& object, std::initializer_list<const char*> known, const std::string& place);

}  // namespace tern
