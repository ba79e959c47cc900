#pragma once
// What Hugging Face's files call a parameter of ours. A family is one row of parts here (and one in
// spec/model_spec.cpp).

#include <string>
#include <string_view>
#include <vector>

#include "model/weights.h"

namespace tern {

enum class Part : uint8_t {
  tokens,
  positions,
  attention_norm,
  qkv,
  attention_out,
  mlp_norm,
  up,
  down,
  final_norm,
  projection
};

/// `suffix`: "weight" or "bias". rows: of our tensor. layer: -1 outside the blocks.
std::vector<Fragment> file_names(const ModelSpec&, int layer, Part, std::string_view suffix, int64_t rows);
/// The prefix that a file saved from the bare model lacks: "model." or "transformer.".
std::string_view base_prefix(const ModelSpec&);
/// Tensors that files hold beside parameters and that can be made again: rotary frequencies, causal masks.
bool is_harmless_buffer(std::string_view name);

}  // namespace tern
