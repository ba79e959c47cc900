#pragma once
// The reply to /v1/embeddings, as the OpenAI interface writes it.

#include <string>
#include <vector>

#include "serve/ask.h"

namespace tern {

/// `vectors` in the order of the texts.
std::string embeddings_reply(const AskedVectors&, const std::vector<std::vector<float>>& vectors, const ServedModel&);

}  // namespace tern
