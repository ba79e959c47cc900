#include "train/zeroth_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/options.h"
#include "model/linear.h"
#include "program/two_forwards.h"
#include "spec/attended_pairs.h"
#include "spec/recompute.h"
#include "spec/update_words.h"
#include "train/option_origin.h"

namespace tern {

bool asks_for_zeroth_order(const Options& o) { return o.knows("gradients") && o.text("gradients") == "zeroth-order"; }

std::optional<double> perturbation_from(const Options& o) {
  if (!o.knows("gradients")) return {};
  if (asks_for_zeroth_order(o)) return o.real("perturbation");
  if (o.given("perturbation"))
    throw Error(ErrorKind::usage, "{}: only --gradients zeroth-order has one; leave it out",
                as_given(o, "perturbation"));
  return {};
}

void check_zeroth_order(const Options& o, const TrainSettings& s) {
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorKind::usage, "--gradients zeroth-order: {}", why);
  };
  const bool streams = o.knows("stream") && o.has("stream");
  const std::pair<bool, const char*> kOfGradients[] = {{s.plan.has_value(), "plan"},
                                                       {s.async.has_value(), "async"},
                                                       {s.robust.has_value(), "aggregator"},
                                                       {s.outer.has_value(), "outer"},
                                                       {s.update_in_backward, "update-in-backward"},
                                                       {streams, "stream"},
                                                       {s.recompute != Recompute::none, "recompute"}};
  for (const auto& [given, name] : kOfGradients)
    if (given) refuse(fmt::format("--{} is about backward passes, and there are none; leave it out", name));
  if (s.ranks > 1) refuse(fmt::format("runs on one rank; --ranks {} have gradients to add up", s.ranks));
  if (s.sum_order.groups > 1) refuse("--sum-groups adds gradients up; leave it out");
  if (s.optimizer.clip > 0)
    refuse(fmt::format("--clip {}: a step is as long as its slope says; say --clip 0", s.optimizer.clip));
  const UpdateRuleRow& row = row_of(s.optimizer.rule);
  if (row.sums.over == UpdateSums::Over::model && num_sums(s.optimizer) > 0)
    refuse(
        fmt::format("--optimizer {} takes the norm of all gradients; choose another rule", name_of(s.optimizer.rule)));
  if (row.computes_elsewhere)
    refuse(
        fmt::format("--optimizer {} takes gradients elsewhere than at the weights that it keeps; choose another rule",
                    name_of(s.optimizer.rule)));
  if (s.adapter && (s.adapter->preference || !s.adapter->trains_a))
    refuse(
        "learns from the loss of tokens alone; choose --method lora, rslora, qalora, qblora, qablora, irqlora or dora");
  if (!o.given("learning-rate")) refuse(fmt::format("say --learning-rate: {}", zeroth_rate_words()));
}

Program zeroth_program(const ModelSpec& spec, const TrainSettings& s) {
  std::vector<CostQuery> micros;
  for (int64_t begin = 0; begin < s.batch; begin += s.micro_batch) {
    const int64_t sequences = std::min(s.micro_batch, s.batch - begin);
    micros.push_back({.tokens = sequences * s.seq,
                      .attended_pairs = sequences * attended_pairs(s.seq, 0, 0),
                      .dtype = s.dtype,
                      .scratch = scratch_bytes(s.multiply, s.dtype)});
  }
  return two_forwards(without_dropout(spec), micros);
}

void add_second_pass(std::vector<MicroBatch>& batches) {
  const size_t once = batches.size();
  batches.reserve(2 * once);
  for (size_t i = 0; i < once; ++i) {
    const MicroBatch& b = batches[i];
    MicroBatch copy(b.tokens, b.rows.starts, b.targets, b.rows.rope);
    copy.first_row = b.first_row;
    batches.push_back(std::move(copy));
  }
}

std::vector<bool> units_in_file(const ModelSpec& spec, const TrainSettings& s) {
  std::vector<bool> units;
  if (!s.perturbation || !s.states_on_disk) return units;
  for (const Unit& unit : spec.units) units.push_back(unit.layer >= 0);
  return units;
}

}  // namespace tern
