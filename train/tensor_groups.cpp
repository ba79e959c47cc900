#include "train/tensor_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/context_ranks.h"
#include "model/linear.h"
#include "model/ring_attention.h"
#include "model/tensor_parts.h"
#include "model/visit_weights.h"
#include "train/group_advice.h"
#include "train/settings_ranks.h"

namespace tern {

namespace {

// What a rank of parts can do alone.
bool updates_each_element(UpdateRule rule) {
  const UpdateRuleRow& row = row_of(rule);
  return std::ranges::all_of(row.slots, [](const StateSlot& slot) { return !slot.type; }) &&
         num_sums(update_config(rule)) == 0 && row.grain({ParameterKind::matrix, 8, 8}) == UpdateGrain::interval;
}

std::string other_seq(const TrainSettings& s, const ModelSpec& spec) {
  const int64_t seq = nearest_seq(s, spec);
  return seq > 0 ? fmt::format("--seq {}", seq) : "another --seq";
}

}  // namespace

void check_tensor_ranks(const ModelSpec& spec, const TrainSettings& s) {
  if (s.tensor == 1) return;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::usage, "--tensor-parallel {}: {}", s.tensor, why);
  };
  if (const std::string fault = why_not_in_parts(spec, s.tensor); !fault.empty())
    refuse(fmt::format("{}, which {} ranks cannot share out; {}", fault, s.tensor,
                       group_advice(s, &spec, &GroupSizes::tensor)));
  if (s.robust) refuse("--aggregator takes whole gradients of each rank; leave one of the two out");
  if (!updates_each_element(s.optimizer.rule)) {
    std::string others;
    for (const UpdateRule rule : kUpdateRules)
      if (updates_each_element(rule)) others += fmt::format("{}{}", others.empty() ? "" : ", ", name_of(rule));
    refuse(
        fmt::format("--optimizer {} needs whole matrices or sums over the model, which no rank has; choose one of {}",
                    name_of(s.optimizer.rule), others));
  }
  if (s.tensor_overlap && !multiplies_rows_alone(s.multiply, s.dtype, ProductKind::forward) &&
      !multiplies_rows_alone(s.multiply, s.dtype, ProductKind::input_gradient))
    throw Error(ErrorKind::usage,
                "--tp-comm-overlap: oneDNN makes the products of {} here, and cutting them would change bits; {}",
                name_of(s.dtype), s.plan ? "plan without it" : "give --multiply exact, or leave it out");
  if (s.micro_batch * s.seq / s.context_ranks % s.tensor != 0)
    refuse(fmt::format("a micro-batch of {} tokens cannot be shared out in equal parts; choose {}",
                       s.micro_batch * s.seq, other_seq(s, spec)));
}

void check_context_ranks(const ModelSpec& spec, const TrainSettings& s) {
  if (s.context_ranks == 1) return;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::usage, "--context-parallel {}: {}", s.context_ranks, why);
  };
  if (!spec.predicts) refuse("the model is an encoder, which is not shared out so");
  if (s.robust) refuse("--aggregator takes whole gradients of each rank; leave one of the two out");
  const ModelSpec part = part_of_rank(spec, {.ranks = s.tensor});
  for (size_t u = 0; u < part.units.size(); ++u) {
    const AttentionSpec* a = attention_of(part.units[u]);
    if (!a) continue;
    const std::string fault = s.context_ring ? why_not_in_ring(*a) : why_not_in_context(*a, s.context_ranks);
    if (!fault.empty() && s.context_ring)
      refuse(fmt::format("unit {} {}, which no ring takes; choose --context-by ulysses, or 1", u, fault));
    if (fault.empty()) continue;
    TrainSettings ring = s;
    ring.context_ring = true;
    refuse(fmt::format("unit {} {}, which {} ranks cannot share out; {}{}", u, fault, s.context_ranks,
                       groups_run(ring, &spec) ? "say --context-by ring, or " : "",
                       group_advice(s, &spec, &GroupSizes::context)));
  }
  if (const int64_t parts = parts_of_rows(s); s.seq % parts != 0)
    refuse(fmt::format("the {} tokens of --seq cannot be shared out in {} equal parts; choose {}", s.seq, parts,
                       other_seq(s, spec)));
}

void check_expert_ranks(const ModelSpec& spec, const TrainSettings& s) {
  if (s.expert_ranks == 1) return;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::usage, "--expert-parallel {}: {}", s.expert_ranks, why);
  };
  bool mixture = false;
  for (const Unit& unit : spec.units) {
    const MoeSpec* u = moe_of(unit);
    mixture = mixture || u;
    if (unit.frozen || !unit.adapters.empty())
      refuse("frozen weights and adapters train on whole copies; leave --expert-parallel out");
    if (u && u->experts % s.expert_ranks != 0)
      refuse(fmt::format("the {} experts of a layer cannot be shared out in equal parts; {}", u->experts,
                         group_advice(s, &spec, &GroupSizes::expert)));
  }
  if (!mixture)
    refuse("the model has no experts; leave --expert-parallel out: --zero shares out what ranks keep of any model");
  if (s.tensor > 1)
    refuse(fmt::format("--tensor-parallel {} does not share out mixtures yet; leave one of the two out", s.tensor));
  if (s.robust) refuse("--aggregator takes whole gradients of each rank; leave one of the two out");
  if (s.perturbation) refuse("--gradients zeroth-order runs on whole copies; leave one of the two out");
}

TensorNorm tensor_norm(const ModelSpec& part, const RankPlace& place, const RankGroups& groups, const Shares& shares) {
  TensorNorm norm;
  for (const ParameterInfo& info : trained_parameters(part)) {
    const AlikeRows rows = alike_rows(part, info, groups.keys != nullptr);
    const int holders = rows.by_all ? place.tensor.ranks : groups.keys ? groups.keys->size() : 1;
    const std::vector<RankInterval>& keepers = shares.keepers(norm.parts.size());
    const bool counts = std::ranges::count(keepers, place.rank, &RankInterval::rank) > 0;
    norm.parts.push_back({rows.from * (info.shape.count() / info.shape[0]), holders, counts});
  }
  return norm;
}

}  // namespace tern
