#include "train/tensor_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rounding.h"
#include "base/text.h"
#include "model/linear.h"
#include "model/ring_attention.h"
#include "model/tensor_parts.h"
#include "model/visit_weights.h"

namespace tern {

namespace {

// What a rank of parts can do alone.
bool updates_each_element(UpdateRule rule) {
  const UpdateRuleRow& row = row_of(rule);
  return std::ranges::all_of(row.slots, [](const StateSlot& slot) { return !slot.type; }) &&
         num_sums(update_config(rule)) == 0 && row.grain({ParameterKind::matrix, 8, 8}) == UpdateGrain::interval;
}

// The greatest number below `most` that divides n.
int64_t nearest_divisor(int64_t n, int64_t most) {
  while (n % most != 0) --most;
  return most;
}

}  // namespace

std::string numbers_that_do(const std::function<bool(int ranks)>& will_do) {
  std::vector<std::string> numbers;
  for (int ranks = 2; ranks <= 1024 && numbers.size() < 8; ++ranks)
    if (will_do(ranks)) numbers.push_back(std::to_string(ranks));
  if (numbers.size() < 2) return join(numbers, "");
  const std::string last = numbers.back();
  numbers.pop_back();
  return join(numbers, ", ") + " or " + last;
}

void check_tensor_ranks(const ModelSpec& spec, const TrainSettings& s) {
  if (s.tensor == 1) return;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::usage, "--tensor-parallel {}: {}", s.tensor, why);
  };
  if (const std::string fault = why_not_in_parts(spec, s.tensor); !fault.empty()) {
    const std::string others = numbers_that_do([&](int ranks) { return why_not_in_parts(spec, ranks).empty(); });
    refuse(fmt::format("{}, which {} ranks cannot share out; {}", fault, s.tensor,
                       others.empty() ? "leave it out" : "choose " + others));
  }
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
    refuse(fmt::format("a micro-batch of {} tokens cannot be shared out in equal parts; choose another --seq",
                       s.micro_batch * s.seq));
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
    const std::string others = numbers_that_do([&](int ranks) { return why_not_in_context(*a, ranks).empty(); });
    refuse(fmt::format("unit {} {}, which {} ranks cannot share out; choose {}{}--context-by ring", u, fault,
                       s.context_ranks, others, others.empty() ? "" : ", or "));
  }
  const int64_t parts = s.context_ring ? 2 * s.context_ranks : s.context_ranks;
  if (s.seq % parts != 0)
    refuse(fmt::format("the {} tokens of --seq cannot be shared out in {} equal parts; choose --seq {}", s.seq, parts,
                       parts * ceil_div(s.seq, parts)));
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
      refuse(fmt::format("the {} experts of a layer cannot be shared out in equal parts; choose {}", u->experts,
                         nearest_divisor(u->experts, s.expert_ranks)));
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
