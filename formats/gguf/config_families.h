#pragma once
// What only some families have, out of a GGUF file's keys into config.json's.

#include <string>
#include <variant>

#include "base/json.h"
#include "formats/gguf/families.h"
#include "formats/gguf/keys.h"
#include "formats/hf/family.h"

namespace tern {

/// Each puts what only some families have into `config`, in which the sizes must already stand. In this order: experts;
/// Gemma's caps, windows and scores; whether attention and MLP stand beside each other in GPT-NeoX and Falcon.
void read_gguf_experts(const GgufKeys&, const GgufFamily&, const HfFamily&, Json& config);
void read_gguf_gemma(const GgufKeys&, const GgufFamily&, const HfFamily&, Json& config);
void read_gguf_branches(const GgufKeys&, const GgufFamily&, const HfFamily&, Json& config);

/// The key of the family's config.json that holds `field`; empty: none.
template <class T>
std::string option_key(const HfFamily& family, T HfConfig::*field) {
  for (const HfOption& o : family.options)
    if (const auto* to = std::get_if<T HfConfig::*>(&o.to); to && *to == field) return std::string(o.key);
  return {};
}

}  // namespace tern
