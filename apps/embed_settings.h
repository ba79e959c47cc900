#pragma once
// What a model's own files say about making vectors of texts, before any option.

#include <string>
#include <vector>

#include "infer/embedding.h"

namespace tern {

struct ModelDescription;

struct EmbedDefaults {
  Pooling pooling = Pooling::mean;
  bool normalize = false;
  int64_t max_tokens = 0;  // of a text
  std::string prefix;
  bool include_prompt = true;      // false: the vector is without the rows of the prefix, which tern does not support
  std::string origin;              // where pooling comes from, for people
  bool said = false;               // the model has sentence-transformers' files
  std::vector<std::string> notes;  // for people
};
/// Errors  bad_file: what tern does not have, as read_sentence_config.
EmbedDefaults embed_defaults(const ModelDescription&);

/// "mean of all tokens, length 1, 'query: ' in front, up to 512 tokens"
std::string describe(const EmbedDefaults&);

}  // namespace tern
