#pragma once
// The names of our parameters in Hugging Face's files, made from the
// patterns in ModelSpec::names (formats/hf/family.h explains them).

#include <string>
#include <string_view>
#include <vector>

#include "model/fragment.h"
#include "model/weights.h"

namespace tern {

/// A parameter's fragments in the files. `suffix`: "weight", "bias", or "" if the name has none. rows: of our tensor. layer: -1 outside the blocks.
std::vector<Fragment> file_names(const ModelSpec&, int layer, HfPart, std::string_view suffix, int64_t rows,
                                 int64_t expert = 0);
/// The prefix that a file saved from the bare model lacks: "model." or "transformer.".
std::string_view base_prefix(const ModelSpec&);
/// Tensors that files hold beside parameters and that can be made again: rotary frequencies, causal masks.
bool is_harmless_buffer(std::string_view name);
/// Whether the tensor belongs to one of ModelSpec::skipped_layers.
bool is_skipped_layer(const ModelSpec&, std::string_view name);
/// Whether the tensor stands beside an encoder and its forward does not need it: the pooler, and the heads that the encoder was
/// trained with.
bool is_beside_encoder(const ModelSpec&, std::string_view name);

}  // namespace tern
