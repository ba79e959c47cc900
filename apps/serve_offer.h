#pragma once
// What a server offers of a model: its name, its conversations, its texts, its vectors.

#include <optional>
#include <string>

#include "apps/embed_settings.h"
#include "infer/chat_prompt.h"
#include "infer/embedding.h"
#include "serve/served_model.h"

namespace tern {

class Options;
struct ModelDescription;

/// The vectors of /v1/embeddings.
struct OfferedVectors {
  EmbedDefaults own;  // what the model's files say
  EmbeddingSettings settings;
  int64_t longest = 0;   // the most tokens of a text; 0: no vectors are made
  std::string why_none;  // why no vectors are made
};
OfferedVectors offered_vectors(const Options&, const ModelDescription&);
/// --model-name, else the last part of MODEL's path. Errors: usage: it is not UTF-8.
std::string offered_name(const Options&);
/// The model as it is offered, without its context, which memory decides. `template_file`: a chat template in place of the model's own; empty: none.
/// If there is a template, this makes `chat`. The model and `chat` must outlive the result.
ServedModel offered_model(const std::string& name, const ModelDescription&, const OfferedVectors&,
                          const std::string& template_file, std::optional<ChatPrompt>& chat);

}  // namespace tern
