#include "train/settings_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/units.h"
#include "plan/layers.h"
#include "train/nearest_order.h"

namespace tern {

bool sums_in_order(const TrainSettings& s) {
  const int shares = data_parallel_size(s);
  if (shares == 1 && s.sum_order.groups == 1) return true;
  return s.batch % s.micro_batch == 0 &&
         check_sum_order(s.sum_order, shares, s.batch / s.micro_batch) == SumFault::none;
}

void check_ranks(const TrainSettings& s) {
  const int64_t groups = s.sum_order.groups;
  const int shares = data_parallel_size(s);
  if (num_stage_devices(s) > 1 && groups != shares)
    throw Error(ErrorKind::usage,
                "--sum-groups: {}, but the plan's stages sum the micro-batches of {} each in their order; leave it out",
                groups, counted(shares, "replica"));
  if (sums_each_micro_batch(s) && groups != shares)
    throw Error(
        ErrorKind::usage,
        "--sum-groups: {}, but --zero {} sums each micro-batch over the {} ranks before the next one; choose {}, "
        "or --zero 1",
        groups, deepest_zero(s), shares, remedy_of(s, nearest_order(s)));
  if (sums_in_order(s)) return;
  const std::string remedy = remedy_of(s, nearest_order(s));
  if (s.batch % s.micro_batch != 0)
    throw Error(ErrorKind::usage,
                "--micro-batch: {} does not divide the {} sequences of --batch, and with --ranks or --sum-groups all "
                "shares are equal; choose {}",
                s.micro_batch, s.batch, remedy);
  const int64_t micros = s.batch / s.micro_batch;
  switch (check_sum_order(s.sum_order, shares, micros)) {
    case SumFault::micro_not_divided:
      throw Error(ErrorKind::usage,
                  "--{}: {} of a step (--batch {} in --micro-batch {}) cannot be shared out to {} in equal parts; "
                  "choose {}",
                  groups == shares ? "ranks" : "sum-groups",
                  micros == 1 ? std::string("1 micro-batch") : fmt::format("{} micro-batches", micros), s.batch,
                  s.micro_batch, groups == shares ? counted(groups, "rank") : counted(groups, "group"), remedy);
    case SumFault::shares_not_divided:
      throw Error(ErrorKind::usage, "--sum-groups: {} cannot be shared out to --ranks {}; choose {}",
                  counted(groups, "group"), shares, remedy);
    default:
      throw Error(ErrorKind::usage,
                  "--sum-groups: {} groups on --ranks {} are {} to a rank, no power of two: one rank would sum them in "
                  "another order; choose {}",
                  groups, shares, groups / shares, remedy);
  }
}

int deepest_zero(const TrainSettings& s) {
  int zero = s.zero;
  if (s.plan)
    for (const PlannedLayers& l : s.plan->layers) zero = std::max(zero, l.strategy.zero);
  return zero;
}

bool sums_each_micro_batch(const TrainSettings& s) {
  return deepest_zero(s) >= 2 && num_sharers(s) > 1 && s.batch > s.micro_batch * data_parallel_size(s);
}

std::vector<int> zero_of_units(const ModelSpec& spec, const TrainSettings& s) {
  std::vector<int> zero(spec.units.size(), s.zero);
  if (!s.plan) return zero;
  const std::vector<Layer> layers = layers_of(spec);
  for (const PlannedLayers& planned : s.plan->layers)
    for (int l = planned.first; l < planned.first + planned.count; ++l)
      for (int u = layers[static_cast<size_t>(l)].first, end = u + layers[static_cast<size_t>(l)].count; u < end; ++u)
        zero[static_cast<size_t>(u)] = planned.strategy.zero;
  return zero;
}

}  // namespace tern
