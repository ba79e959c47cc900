#pragma once
// Tokenizers made of files that lie in memory as bytes.

#include <string>
#include <string_view>

#include "formats/tokenizer/tokenizer.h"

namespace tern {

/// The files of one tokenizer; an empty text: there is no such file. The first that is there of sentencepiece, vocab
/// (with merges), ranks and words decides the kind of tokenizer.
struct TokenizerBytes {
  std::string_view sentencepiece;  // tokenizer.model
  std::string_view vocab, merges;  // vocab.json and merges.txt
  std::string_view ranks;          // tiktoken's lines
  std::string_view words;          // vocab.txt
  std::string_view config, special_tokens_map;
};
/// The tokenizer that Tokenizer::load makes of a directory with these files.
/// Errors  as load.
Tokenizer tokenizer_of_bytes(const TokenizerBytes&, const std::string& place);

}  // namespace tern
