#include "train/group_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "base/text.h"
#include "model/context_ranks.h"
#include "model/ring_attention.h"
#include "model/tensor_parts.h"
#include "train/nearest_order.h"
#include "train/rank_place.h"
#include "train/settings_ranks.h"

namespace tern {
namespace {

constexpr int kMostRanks = 1024;  // of --ranks

bool make_groups(const TrainSettings& s) {
  return s.ranks % (num_stage_devices(s) * s.tensor * s.context_ranks) == 0 && num_sharers(s) % s.expert_ranks == 0;
}

bool sum_the_step(const TrainSettings& s) {
  if (sums_each_micro_batch(s) && s.sum_order.groups != data_parallel_size(s)) return false;
  return sums_in_order(s);
}

bool have_equal_rows(const TrainSettings& s) {
  return s.micro_batch * s.seq / s.context_ranks % s.tensor == 0 && s.seq % parts_of_rows(s) == 0;
}

bool shares_model(const ModelSpec& spec, const TrainSettings& s) {
  if (s.tensor > 1 && !why_not_in_parts(spec, s.tensor).empty()) return false;
  const ModelSpec part = part_of_rank(spec, {.ranks = s.tensor});
  return std::ranges::all_of(part.units, [&](const Unit& unit) {
    const AttentionSpec* a = attention_of(unit);
    if (a && s.context_ranks > 1 &&
        !(s.context_ring ? why_not_in_ring(*a) : why_not_in_context(*a, s.context_ranks)).empty())
      return false;
    const MoeSpec* experts = moe_of(unit);
    return !experts || experts->experts % s.expert_ranks == 0;
  });
}

// The numbers from 2 on that will do, at most eight of them: "2, 3 or 4"; "" if there is none.
std::string numbers_that_do(int most, const std::function<bool(int)>& will_do) {
  std::vector<std::string> numbers;
  for (int n = 2; n <= most && numbers.size() < 8; ++n)
    if (will_do(n)) numbers.push_back(std::to_string(n));
  if (numbers.size() < 2) return join(numbers, "");
  const std::string last = numbers.back();
  numbers.pop_back();
  return join(numbers, ", ") + " or " + last;
}

}  // namespace

GroupSizes group_sizes(const TrainSettings& s) { return {s.ranks, s.tensor, s.context_ranks, s.expert_ranks}; }

TrainSettings with_groups(TrainSettings s, const GroupSizes& sizes) {
  s.ranks = sizes.ranks, s.tensor = sizes.tensor, s.context_ranks = sizes.context, s.expert_ranks = sizes.expert;
  if (!s.fixed_groups) s.sum_order.groups = std::max(1, s.ranks / num_stage_devices(s) / (s.tensor * s.context_ranks));
  if (!s.fixed_micro_batch) s.micro_batch = micro_batch_of_groups(s.batch, s.sum_order.groups);
  return s;
}

int64_t nearest_seq(const TrainSettings& s, const ModelSpec& spec) {
  TrainSettings other = s;
  const auto does = [&](int64_t seq) {
    other.seq = seq;
    return have_equal_rows(other);
  };
  for (int64_t seq = s.seq + 1; seq <= spec.context; ++seq)
    if (does(seq)) return seq;
  for (int64_t seq = s.seq - 1; seq > 0; --seq)
    if (does(seq)) return seq;
  return 0;
}

bool groups_run(const TrainSettings& s, const ModelSpec* spec) {
  return make_groups(s) && sum_the_step(s) && have_equal_rows(s) && (!spec || shares_model(*spec, s));
}

std::string group_advice(const TrainSettings& s, const ModelSpec* spec, int GroupSizes::*axis) {
  const auto run = [&](GroupSizes sizes, int on_axis, int ranks) {
    sizes.*axis = on_axis, sizes.ranks = ranks;
    if (ranks < 1 || ranks > kMostRanks || ranks % (sizes.tensor * sizes.context) != 0) return false;
    return groups_run(with_groups(s, sizes), spec);
  };
  const GroupSizes own = group_sizes(s);
  const std::string others = numbers_that_do(s.ranks, [&](int n) { return run(own, n, s.ranks); });
  const bool may_stay = !spec || shares_model(*spec, s);  // the number on the axis
  for (int away = 1; may_stay && away < kMostRanks; ++away)
    for (const int ranks : {s.ranks + away, s.ranks - away})
      if (run(own, own.*axis, ranks))
        return fmt::format("choose {}{}--ranks {}", others, others.empty() ? "" : ", or ", ranks);
  if (!others.empty()) return "choose " + others;
  for (int n = std::min(own.*axis, s.ranks); n > 1; --n)
    for (int ranks = s.ranks; ranks >= n; --ranks)
      if (run(own, n, ranks)) return fmt::format("choose {} and --ranks {}", n, ranks);
  GroupSizes without = own;
  without.*axis = 1;
  const TrainSettings plain = with_groups(s, without);
  if (groups_run(plain, spec)) return "leave it out";
  constexpr const char* kOthers = "choose other numbers of ranks and groups";
  if (!make_groups(plain)) return kOthers;
  const StepOrder order = nearest_order(plain);
  const std::string sizes = remedy_of(plain, order);
  TrainSettings remedied = plain;
  remedied.batch = order.batch, remedied.micro_batch = order.micro_batch, remedied.sum_order.groups = order.groups;
  return sizes.empty() || !groups_run(remedied, spec) ? kOthers : "leave it out, with " + sizes;
}

}  // namespace tern
