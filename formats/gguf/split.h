#pragma once
// How byte-level vocabularies cut text into words: in GGUF by a name, in tokenizer.json by steps.

#include <string>
#include <string_view>

#include "base/json.h"

namespace tern {

/// The pre_tokenizer of tokenizer.json that tokenizer.ggml.pre = `name` stands for; null: tern does not know the name.
/// Source  what llama.cpp does for each name; where llama.cpp rewrote a model's pattern, the model's own pattern.
Json gguf_pre_tokenizer(std::string_view name);

/// The name for such steps; `whole_words_first` (ignore_merges) tells apart names that cut alike. Empty: none that tern
/// knows.
std::string gguf_pre_name(const Json& pre_tokenizer, bool whole_words_first);

/// Whether, under this name, a word that is a piece becomes that piece without merging.
bool gguf_takes_whole_words(std::string_view name);

}  // namespace tern
