#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/hf/config_impl.h"

// Source: which layers of Qwen's mixtures have experts, as transformers 5.23 decides it (observed by running it).

namespace tern {
namespace {

std::vector<bool> stepped_layers(HfFields& fields, const HfConfig& c) {
  const int64_t step = fields.integer("decoder_sparse_step", HfFields::Null::absent).value_or(1);
  if (step < 1) fields.fail("decoder_sparse_step", "{}, expected at least 1", step);
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

std::vector<bool> later_layers(HfFields& fields, const HfFamily& family, const HfConfig& c) {
  const auto said = fields.integer("first_k_dense_replace", HfFields::Null::absent);
  if (!said && !family.blocks.latent) fields.fail("first_k_dense_replace", "missing; a {} model needs it", family.name);
  const int64_t dense = said.value_or(family.blocks.sigmoid_router ? 3 : 0);
  if (dense < 0) fields.fail("first_k_dense_replace", "{}, expected at least 0", dense);
  std::vector<bool> layers;
  for (int64_t i = 0; dense > 0 && i < c.num_hidden_layers; ++i) layers.push_back(i >= dense);
  return layers;
}

// What DeepSeek's files say beside numbers.
void read_deepseek_router(HfFields& fields, const HfFamily& family, HfConfig& c) {
  const bool sigmoid = family.blocks.sigmoid_router;
  if (const auto each = fields.integer("moe_layer_freq", HfFields::Null::absent); each && *each != 1)
    fields.fail("moe_layer_freq", "{}, layers without experts among those with, which {} does not have; expected 1",
                *each, family.name);
  const std::string_view score = sigmoid ? "sigmoid" : "softmax";
  if (const auto said = fields.text("scoring_func", HfFields::Null::absent); said && *said != score)
    fields.fail("scoring_func", "{}, but {}'s router takes a {}", shown_value(Json(*said)), family.name, score);
  const auto method = fields.text("topk_method", HfFields::Null::absent);
  if (sigmoid) {
    if (method && *method != "noaux_tc")
      fields.fail("topk_method", "{}, but {} chooses by noaux_tc", shown_value(Json(*method)), family.name);
    c.grouped_choice = true;
  } else if (method && *method != "greedy" && *method != "group_limited_greedy") {
    fields.fail("topk_method", "{}, expected greedy or group_limited_greedy", shown_value(Json(*method)));
  } else {
    c.grouped_choice = method == "group_limited_greedy";
    c.normalized_experts = false;
  }
  if (c.expert_size < 1 || c.expert_size > INT32_MAX)
    fields.fail("moe_intermediate_size", "{}, expected 1 to 2147483647", c.expert_size);
  const int64_t shared = fields.integer("n_shared_experts", HfFields::Null::absent).value_or(sigmoid ? 1 : 2);
  if (shared < 1 || shared > INT32_MAX / c.expert_size)
    fields.fail("n_shared_experts", "{}, expected at least 1, and less than 2^31 numbers together", shared);
  c.shared_expert_size = shared * c.expert_size;
}

}  // namespace

void read_hf_experts(HfFields& fields, const HfFamily& family, HfConfig& c) {
  if (family.blocks.experts == HfExperts::stepped) c.expert_layers = stepped_layers(fields, c);
  if (family.blocks.experts == HfExperts::after) {
    c.expert_layers = later_layers(fields, family, c);
    read_deepseek_router(fields, family, c);
  }
  if (c.predicting_layers > 0)
    c.notes.push_back(fmt::format(
        "{}: num_nextn_predict_layers {}: layers that predict further tokens are not run, and their weights not read",
        fields.place(), c.predicting_layers));
  if (c.router_loss)
    c.notes.push_back(
        fmt::format("{}: output_router_logits asks for a loss of balance in training; tern's training does not add it",
                    fields.place()));
}

namespace {

struct ExpertJudge {
  const HfConfig& config;
  const HfFamily& family;
  ErrorKind kind;
  std::string_view place;

  // Names the family's key of the field.
  [[noreturn]] void wrong(auto HfConfig::*field, const std::string& fact) const {
    std::string_view key = "num_experts";
    for (const HfOption& o : family.options)
      if (const auto* to = std::get_if<decltype(field)>(&o.to); to && *to == field) key = o.key;
    throw Error(kind, "{}: {}: {}", place, key, fact);
  }
  void in_range(int64_t HfConfig::*field, int64_t least, int64_t most) const {
    if (config.*field < least || config.*field > most)
      wrong(field, fmt::format("{}, expected {} to {}", config.*field, least, most));
  }
};

void check_expert_counts(const ExpertJudge& judge) {
  const HfConfig& c = judge.config;
  constexpr int64_t kMostExperts = 65536;
  judge.in_range(&HfConfig::num_experts, 1, kMostExperts);
  judge.in_range(&HfConfig::experts_per_token, 1, c.num_experts);
  const bool after = judge.family.blocks.experts == HfExperts::after;
  for (const auto field : {&HfConfig::expert_size, &HfConfig::shared_expert_size}) {
    const bool there = after || has_option(judge.family, field);
    judge.in_range(field, there ? 1 : 0, there ? INT32_MAX : 0);
  }
  if (after && c.shared_expert_size % c.expert_size != 0)
    judge.wrong(&HfConfig::expert_size,
                fmt::format("{}, which does not divide the shared experts' {}", c.expert_size, c.shared_expert_size));
}

void check_expert_groups(const ExpertJudge& judge) {
  const HfConfig& c = judge.config;
  const bool after = judge.family.blocks.experts == HfExperts::after, sigmoid = judge.family.blocks.sigmoid_router;
  if (after) {
    judge.in_range(&HfConfig::expert_groups, 1, c.num_experts);
    judge.in_range(&HfConfig::top_groups, 1, c.expert_groups);
    const int64_t size = c.num_experts / c.expert_groups;
    if (c.num_experts % c.expert_groups != 0 || (sigmoid && size < 2))
      judge.wrong(&HfConfig::expert_groups,
                  fmt::format("{}, which does not part {} experts into equal groups{}", c.expert_groups, c.num_experts,
                              sigmoid ? " of two or more" : ""));
    if (c.grouped_choice && c.experts_per_token > c.top_groups * size)
      judge.wrong(&HfConfig::experts_per_token, fmt::format("{}, more than the {} experts of {} groups",
                                                            c.experts_per_token, c.top_groups * size, c.top_groups));
  } else if (c.expert_groups != 1 || c.top_groups != 1) {
    throw Error(judge.kind, "{}: n_group: {}, but {} has none", judge.place, c.expert_groups, c.model_type);
  }
}

}  // namespace

void check_hf_experts(const HfConfig& c, const HfFamily& family, ErrorKind kind, std::string_view place) {
  const ExpertJudge judge{c, family, kind, place};
  if (family.blocks.experts == HfExperts::none) {
    if (c.num_experts != 0 || c.experts_per_token != 0 || c.expert_size != 0 || c.shared_expert_size != 0 ||
        c.gate_alpha != 0 || c.gate_limit != 0 || !c.expert_layers.empty())
      judge.wrong(&HfConfig::num_experts, fmt::format("set, but {} has none", c.model_type));
    return;
  }
  check_expert_counts(judge);
  const bool after = family.blocks.experts == HfExperts::after;
  const bool normalizes = has_option(family, &HfConfig::normalized_experts);
  if (!normalizes && c.normalized_experts == after)
    throw Error(kind, "{}: norm_topk_prob: {}, but {} always does the other", place, c.normalized_experts,
                c.model_type);
  if (!std::isfinite(c.expert_scaling) || (c.expert_scaling != 1 && !has_option(family, &HfConfig::expert_scaling)))
    judge.wrong(&HfConfig::expert_scaling,
                fmt::format("{}, expected a number, and 1 where the family has none", c.expert_scaling));
  if (has_option(family, &HfConfig::gate_limit)) {
    for (const auto field : {&HfConfig::gate_alpha, &HfConfig::gate_limit})
      if (!(c.*field > 0) || !std::isfinite(c.*field))
        judge.wrong(field, fmt::format("{}, expected more than 0", c.*field));
    if (c.activation != HfActivation::silu)
      throw Error(kind, "{}: hidden_act: '{}', but {}'s gate is a silu", place, c.hidden_act, c.model_type);
  } else if (c.gate_alpha != 0 || c.gate_limit != 0) {
    throw Error(kind, "{}: swiglu_limit: {}, but {} has none", place, c.gate_limit, c.model_type);
  }
  const bool sigmoid = family.blocks.sigmoid_router;
  if (c.grouped_choice != (after && (sigmoid || c.grouped_choice)))
    throw Error(kind, "{}: topk_method: {}, which {} does not choose by", place,
                c.grouped_choice ? "groups" : "no groups", c.model_type);
  check_expert_groups(judge);
  if (!(c.router_jitter >= 0 && c.router_jitter < 1))
    judge.wrong(&HfConfig::router_jitter, fmt::format("{}, expected at least 0 and less than 1", c.router_jitter));
  if (!std::isfinite(c.router_loss_coefficient))
    judge.wrong(&HfConfig::router_loss_coefficient, fmt::format("{}, expected a number", c.router_loss_coefficient));
  const bool listed = family.blocks.experts == HfExperts::stepped || after;
  if (!c.expert_layers.empty() && (!listed || static_cast<int64_t>(c.expert_layers.size()) != c.num_hidden_layers))
    throw Error(kind, "{}: layers with experts: a list of {} for {}, which has {} layers", place,
                c.expert_layers.size(), c.model_type, c.num_hidden_layers);
  if (after && !std::is_sorted(c.expert_layers.begin(), c.expert_layers.end()))
    throw Error(kind, "{}: first_k_dense_replace: a layer without experts after one with them", place);
}

}  // namespace tern
