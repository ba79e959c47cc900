#pragma once
// What a server offers of a model: names, conversations, texts, vectors.

#include <optional>
#include <string>

#include "apps/embed_settings.h"
#include "infer/chat_prompt.h"
#include "infer/embedding.h"
#include "serve/served_model.h"

namespace tern {

class Options;
struct ModelDescription;

/// Vectors that /v1/embeddings makes.
struct OfferedVectors {
  EmbedDefaults own;
  EmbeddingSettings settings;
  int64_t longest = 0;  // tokens of a text; 0: none are made
  std::string why_none;
};
OfferedVectors offered_vectors(const Options&, const ModelDescription&);

/// --model-name, else the last part of MODEL's path. Errors: usage: no UTF-8.
std::string offered_name(const Options&);

/// All but the context, which memory decides. `template_file`: how one converses with it; empty: its own files say it. The
/// model, and `chat`, which is made where there is a template, must outlive it.
ServedModel offered_model(const std::string& name, const ModelDescription&, const OfferedVectors&,
                          const std::string& template_file, std::optional<ChatPrompt>& chat);

}  // namespace tern
