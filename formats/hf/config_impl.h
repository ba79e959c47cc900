#pragma once
// What the parts of the config.json reader and writer share.

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/hf/family.h"
#include "formats/hf/fields.h"

namespace tern {

/// A file of a few bytes may ask for this many layers at most: each becomes units in memory.
inline constexpr int64_t kMostLayers = 10'000;

/// Rotary positions out of rope_parameters, rope_scaling, rope_theta and the keys around them. Needs head_dim and
/// max_position_embeddings of `config`; appends to its notes.
HfRope read_hf_rope(HfFields& top, const HfFamily& family, HfConfig& config);

/// Which layers have the window and which rotate queries and keys, out of sliding_window, layer_types and the keys
/// around them. Needs num_hidden_layers; appends to the notes.
void read_hf_layers(HfFields& top, const HfFamily& family, HfConfig& config);

/// Which layers have experts, out of the keys around them; appends to the notes what training leaves out.
void read_hf_experts(HfFields& top, const HfFamily& family, HfConfig& config);

/// Latent attention's sizes; sets head_dim, which the rotary positions need.
void read_hf_latent(HfFields& top, const HfFamily& family, HfConfig& config);

/// Ranges and divisibility of a whole config. `place` opens messages; keys are named as the family spells them.
void check_hf_values(const HfConfig& config, ErrorKind kind, std::string_view place);
void check_hf_experts(const HfConfig& config, const HfFamily& family, ErrorKind kind, std::string_view place);
void check_hf_latent(const HfConfig& config, const HfFamily& family, ErrorKind kind, std::string_view place);
/// Checks that parameters, and numbers of a pass through the longest text, can be counted in 64 bits. The values are in
/// their ranges.
void check_hf_size(const HfConfig& config, ErrorKind kind, std::string_view place);
void check_hf_rope(const HfConfig& config, const HfRope& rope, ErrorKind kind, std::string_view place);

/// quant_method of weights as tern codes them.
inline constexpr std::string_view kCodedMethod = "tern";
/// The remedy that a message names for weights quantized by `method`, which tern does not read.
std::string_view quantized_remedy(std::string_view method);

/// How the family's file spells one of HfConfig's fields: "hidden_size" is "n_embd" in gpt2.
std::string_view hf_key(std::string_view model_type, std::string_view field);
/// Whether the family's file has a key for `field`; if not, the default holds.
bool has_hf_key(const HfFamily& family, std::string_view field);

/// The activation of this name; absent: tern has none.
std::optional<HfActivation> activation_named(std::string_view name);

}  // namespace tern
