#pragma once
// Well-known models by name, for planning without their files: the sizes their publishers' configurations state.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/model_spec.h"

namespace tern {

/// "llama-2-7b", "mixtral-8x7b", …; case does not matter. nullopt for any other name.
std::optional<ModelSpec> preset_model(std::string_view name);
std::vector<std::string_view> preset_names();
/// For verbs that read a model's files. Errors  usage: nothing exists at `model`, but a preset has this name; a preset
/// has no files. The message says what to give instead.
void refuse_preset(const std::string& model);

/// A decoder of these sizes, as tables of published runs give them. Its blocks are gpt2's (learned positions, biases, tied
/// head), or those of another family of formats/hf/family.h; hidden width and key/value heads may be set. hidden 0: 4·width;
/// kv_heads 0: as many as heads. Errors: bad_file, for sizes that make no model (heads that do not divide the width).
struct DecoderSizes {
  std::string_view family = "gpt2";
  int64_t vocab = 51200, width = 0, layers = 0, heads = 0, context = 0, hidden = 0, kv_heads = 0;
};
ModelSpec decoder_of(const DecoderSizes&);

}  // namespace tern
