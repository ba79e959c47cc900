#pragma once
// Reading a tokenizer's files into TokenizerData. Each throws Error(bad_file) that begins with `place`.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "formats/tokenizer/sentencepiece_file.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {

/// Ids must be dense enough: a file of a few bytes must not ask for gigabytes.
void check_ids(int64_t largest_id, int64_t num_pieces, const std::string& place);
std::vector<NormalizeStep> read_normalizer(const Json&, const std::string& place);
std::vector<SplitTextStep> read_pre_tokenizer(const Json&, const std::string& place);
std::vector<DecodeStep> read_decoder(const Json&, const std::string& place);
/// Replaces the StripDecode by which tokenizer.json imitates SentencePiece by SentencePiece's own rule for leading
/// spaces.
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

/// One entry of added_tokens or added_tokens_decoder.
AddedToken read_added_token(const Json&, int32_t id, const std::string& place);
/// One merge by its two pieces, or as the line "left right".
void add_merge(BpeModel&, std::string_view left, std::string_view right, size_t i, const std::string& place);
void add_merge_line(BpeModel&, std::string_view line, size_t i, const std::string& place);

}  // namespace tern
