#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/hf_config_impl.h"

// Source: which layers of Qwen's mixtures have experts, as transformers 5.23 decides it (observed by running it).

namespace tern {
namespace {

std::vector<bool> stepped_layers(HfFields& fields, const HfConfig& c) {
  const int64_t step = fields.integer("decoder_sparse_step", HfFields::Null::absent).value_or(1);
  if (step < 1) fields.fail("decoder_sparse_step", "{}, expected at least 1", step);
  if (c.num_hidden_layers > kMostListedLayers)
    fields.fail("num_hidden_layers", "{}, expected at most {} where layers differ", c.num_hidden_layers,
                kMostListedLayers);
  std::vector<bool> layers;
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers.push_back((i + 1) % step == 0);
  if (const Json* dense = fields.take("mlp_only_layers"); dense && !dense->is_null()) {
    if (!dense->is_array()) fields.fail("mlp_only_layers", "{}, expected a list of layers", shown_value(*dense));
    for (const Json& layer : *dense) {
      if (!layer.is_number_integer() || layer < 0 || layer >= c.num_hidden_layers)
        fields.fail("mlp_only_layers", "holds {}, expected layers, 0 to {}", shown_value(layer),
                    c.num_hidden_layers - 1);
      layers[layer.get<size_t>()] = false;
    }
  }
  return std::all_of(layers.begin(), layers.end(), [](bool x) { return x; }) ? std::vector<bool>{} : layers;
}

}  // namespace

void read_hf_experts(HfFields& fields, const HfFamily& family, HfConfig& c) {
  if (family.blocks.experts == HfExperts::stepped) c.expert_layers = stepped_layers(fields, c);
  if (c.router_loss)
    c.notes.push_back(
        fmt::format("{}: output_router_logits asks for a loss of balance in training; tern's training does not add it",
                    fields.place()));
}

void check_hf_experts(const HfConfig& c, const HfFamily& family, ErrorKind kind, std::string_view place) {
  const auto wrong = [&](auto HfConfig::*field, const std::string& fact) {
    std::string_view key = "num_experts";
    for (const HfOption& o : family.options)
      if (const auto* to = std::get_if<decltype(field)>(&o.to); to && *to == field) key = o.key;
    throw Error(kind, "{}: {}: {}", place, key, fact);
  };
  const auto in_range = [&](int64_t HfConfig::*field, int64_t least, int64_t most) {
    if (c.*field < least || c.*field > most) wrong(field, fmt::format("{}, expected {} to {}", c.*field, least, most));
  };
  if (family.blocks.experts == HfExperts::none) {
    if (c.num_experts != 0 || c.experts_per_token != 0 || c.expert_size != 0 || c.shared_expert_size != 0 ||
        !c.expert_layers.empty())
      wrong(&HfConfig::num_experts, fmt::format("set, but {} has none", c.model_type));
    return;
  }
  constexpr int64_t kMostExperts = 65536;
  in_range(&HfConfig::num_experts, 1, kMostExperts);
  in_range(&HfConfig::experts_per_token, 1, c.num_experts);
  for (const auto field : {&HfConfig::expert_size, &HfConfig::shared_expert_size})
    in_range(field, has_option(family, field) ? 1 : 0, has_option(family, field) ? INT32_MAX : 0);
  if (!has_option(family, &HfConfig::normalized_experts) && !c.normalized_experts)
    wrong(&HfConfig::num_experts, fmt::format("without norm_topk_prob, but {} always divides", c.model_type));
  if (!(c.router_jitter >= 0 && c.router_jitter < 1))
    wrong(&HfConfig::router_jitter, fmt::format("{}, expected at least 0 and less than 1", c.router_jitter));
  if (!std::isfinite(c.router_loss_coefficient))
    wrong(&HfConfig::router_loss_coefficient, fmt::format("{}, expected a number", c.router_loss_coefficient));
  const bool listed = family.blocks.experts == HfExperts::stepped;
  if (!c.expert_layers.empty() && (!listed || static_cast<int64_t>(c.expert_layers.size()) != c.num_hidden_layers))
    throw Error(kind, "{}: mlp_only_layers: a list for {} layers of {}, which has {}", place, c.expert_layers.size(),
                c.model_type, c.num_hidden_layers);
}

}  // namespace tern
