#pragma once
// What the parts of the config.json reader and writer share.

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/hf_config.h"
#include "formats/hf_fields.h"

namespace tern {

/// Rotary positions out of rope_parameters, rope_scaling, rope_theta and the keys around them. Needs head_dim and
/// max_position_embeddings of `config`; appends to its notes.
HfRope read_hf_rope(HfFields& top, HfConfig& config);

/// Ranges and divisibility of a whole config. `place` opens messages; keys are named as the family spells them.
void check_hf_values(const HfConfig& config, ErrorKind kind, std::string_view place);
void check_hf_rope(const HfConfig& config, ErrorKind kind, std::string_view place);

/// How the family's file spells one of HfConfig's fields: "hidden_size" is "n_embd" in gpt2.
std::string_view hf_key(std::string_view model_type, std::string_view field);

/// What an activation's name computes; absent: tern has none of that name.
std::optional<HfActivation> activation_named(std::string_view name);

}  // namespace tern
