// A model's configuration into GGUF's keys: the names are llama.cpp's, as its converter writes and its loader reads
// them.
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "formats/gguf/families.h"
#include "formats/gguf/model.h"
#include "formats/gguf/write.h"
#include "formats/hf/config_impl.h"

namespace tern {

namespace {

// What llama.cpp fixes in its code and no key says.
void refuse_what_it_leaves_out(const HfConfig& c, const GgufFamily& family) {
  const auto refuse = [&](std::string_view what) {
    throw Error(ErrorKind::usage, "GGUF: its {} has {}; export to --format hf", family.architecture, what);
  };
  if (const int64_t period = family.unturned_every; period > 0)
    for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer)
      if ((c.rotary_layers.empty() || c.rotary_layers[static_cast<size_t>(layer)]) != ((layer + 1) % period != 0))
        refuse(fmt::format("one layer in {} without rotary positions, this model others", period));
  if (family.without_windows && c.sliding_window) refuse("no windows, this model has");
  if (family.untied && c.tie_word_embeddings) refuse("a head of its own, this model's is tied");
  if (family.without_biases && c.attention_bias) refuse("no biases, this model has");
}

}  // namespace

void add_gguf_config(GgufMetadata& m, const HfConfig& c) {
  const GgufFamily* family = gguf_family(c.model_type);
  if (!family)
    throw Error(ErrorKind::usage, "GGUF: tern does not write family '{}' there; export to --format hf", c.model_type);
  const HfFamily& hf = hf_family(c);
  const std::string arch(family->architecture);
  const auto count = [&](std::string_view name, int64_t n) {
    m.add(fmt::format("{}.{}", arch, name), static_cast<uint32_t>(n));
  };
  const auto real = [&](std::string_view name, double x) {
    m.add(fmt::format("{}.{}", arch, name), static_cast<float>(x));
  };
  m.add("general.architecture", arch);
  m.add("general.type", "model");
  count("block_count", c.num_hidden_layers);
  count("context_length", c.max_position_embeddings);
  count("embedding_length", c.hidden_size);
  count("feed_forward_length", c.intermediate_size);
  count("attention.head_count", c.num_attention_heads);
  count("vocab_size", c.vocab_size);
  real(gguf_epsilon_key(hf), c.norm_eps);
  if (c.activation != activation_named(family->activation))
    throw Error(ErrorKind::usage, "GGUF: its {} computes {}, this model {}; export to --format hf", arch,
                family->activation, c.hidden_act);
  refuse_what_it_leaves_out(c, *family);
  if (hf.blocks.positions != HfPositions::rotary) return;
  if (family->multipliers) {
    real("attention.scale", c.attention_multiplier.value_or(1 / std::sqrt(static_cast<double>(c.head_dim))));
    real("embedding_scale", c.embedding_multiplier);
    real("residual_scale", c.residual_multiplier);
    real("logit_scale", c.logits_scaling);
  }
  count("attention.head_count_kv", c.num_key_value_heads);
  count("attention.key_length", c.head_dim);
  count("attention.value_length", c.head_dim);
  count("rope.dimension_count", rotary_dim(c.rope, c.head_dim));
  real("rope.freq_base", c.rope.theta);
  if (c.sliding_window) count("attention.sliding_window", *c.sliding_window);
  const HfRope& r = c.rope;
  switch (r.type) {
    case RopeType::standard:
    case RopeType::llama3:  // as a tensor
      break;
    case RopeType::linear:
    case RopeType::yarn:
      if (r.mscale || r.mscale_all_dim || !r.truncate || r.attention_factor)
        throw Error(ErrorKind::usage,
                    "GGUF: yarn's mscale, mscale_all_dim, truncate and attention_factor have no key of this "
                    "architecture; export to --format hf");
      m.add(arch + ".rope.scaling.type", name_of(r.type));
      real("rope.scaling.factor", r.factor.value_or(1));
      if (r.type == RopeType::linear) break;
      count("rope.scaling.original_context_length", r.original_max_position_embeddings);
      real("rope.scaling.yarn_beta_fast", r.beta_fast);
      real("rope.scaling.yarn_beta_slow", r.beta_slow);
      break;
    default:
      throw Error(ErrorKind::usage, "GGUF: rotary scaling '{}' has no keys there; export to --format hf",
                  name_of(r.type));
  }
}

}  // namespace tern
