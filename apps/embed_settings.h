#pragma once
// What a model's own files say about vectors of texts. An option that is given takes the place of what they say.

#include <string>
#include <vector>

#include "infer/embedding.h"

namespace tern {

struct ModelDescription;

struct EmbedDefaults {
  Pooling pooling = Pooling::mean;
  bool normalize = false;
  int64_t max_tokens = 0;          // of a text
  std::string prefix;              // is put in front of every text
  bool include_prompt = true;      // false: the rows of the prefix are not pooled, which tern does not support
  std::string origin;              // where `pooling` comes from, for people
  bool said = false;               // whether the model has sentence-transformers' files
  std::vector<std::string> notes;  // for people
};
/// Reads the files. Errors  bad_file: they ask for what tern does not have (read_sentence_config).
EmbedDefaults embed_defaults(const ModelDescription&);

/// In words, such as: pooling mean (the model's own), vectors of length 1, "query: " in front of every text, up to 512 tokens
std::string describe(const EmbedDefaults&);

}  // namespace tern
