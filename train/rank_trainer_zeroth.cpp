// Steps without backward passes: two forwards, one slope, and every unit moved by it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/wide_type.h"
#include "model/visit_weights.h"
#include "spec/training_flops.h"
#include "train/rank_trainer.h"
#include "train/zeroth_run.h"

namespace tern {

void RankTrainer::begin_gradient_source() {
  if (!s_.perturbation) {
    if (!s_.update_in_backward)  // else a step brings them to life, layer by layer
      add_gradient_parts(*update_, wide_type(s_.dtype), state_arena_);
    return;
  }
  const ZerothOrder config{.perturbation = *s_.perturbation, .seed = s_.seed};
  zeroth_ =
      std::make_unique<PerturbedWeights>(part_, state_.weights, *update_, config, state_.stored.get(), state_arena_);
}

void RankTrainer::settle_zeroth_order() {
  if (zeroth_) zeroth_->settle(worker_.arena);
}

// Two of the three products that a step with a backward pass has of each matrix.
double RankTrainer::flops_of(double tokens, double targets) const {
  const double training = training_flops(in_.spec, s_.seq, tokens, targets);
  return zeroth_ ? training * 2 / 3 : training;
}

WeightSource RankTrainer::weights_to_read() {
  if (!zeroth_ || !state_.stored) return whole_model();
  zeroth_->begin_reading();
  return *zeroth_;
}

ReadParameter RankTrainer::parameter_reader() {
  if (!zeroth_ || !state_.stored) return {};
  return [this](const ParameterInfo& info) {
    const std::vector<ParameterInfo>& infos = state_.optimizer.infos;
    const auto at = std::ranges::find(infos, info.name, &ParameterInfo::name);
    return zeroth_->read(static_cast<size_t>(at - infos.begin()));
  };
}

StepReport RankTrainer::zeroth_step(std::vector<MicroBatch>& batches, int64_t targets) {
  const int64_t number = state_.step + 1;
  StepReport report{
      .step = number, .total_steps = s_.schedule.total_steps, .learning_rate = learning_rate(s_.schedule, number)};
  const size_t micros = batches.size();
  add_second_pass(batches);
  zeroth_->begin_pass(number, static_cast<int64_t>(micros));
  Compute compute_alike = compute();
  compute_alike.dropout.reset();  // what is left out would differ from what the direction does
  const ExecuteResult run = execute(program_, {.spec = part_,
                                               .weights = *zeroth_,
                                               .micro_batches = batches,
                                               .compute = compute_alike,
                                               .predicted = predicted_,
                                               .clock = clock_});
  double ahead = 0, behind = 0;
  for (size_t m = 0; m < micros; ++m) ahead += run.losses[m], behind += run.losses[micros + m];
  begin_step(*update_, number, [&](int64_t n) { return learning_rate(s_.schedule, n); });
  if (targets > 0) {
    const auto n = static_cast<double>(targets);
    const double slope = (ahead - behind) / n / (2 * *s_.perturbation);
    if (!std::isfinite(slope))
      throw Error(
          ErrorKind::diverged,
          "step {}: the loss is not finite; the weights are those of step {}. A lower --learning-rate or "
          "--perturbation usually helps; that is another run, so give it another --output or say --resume never",
          number, number - 1);
    zeroth_->end_pass(slope);
    report.gradient_norm = std::abs(slope);
    result_.loss = report.loss = (ahead + behind) / 2 / n;
  } else {
    zeroth_->end_pass({});
    if (result_.idle_steps++ == 0)
      note(fmt::format("step {}: none of its tokens has a loss; no update was made (said once; counted at the end)",
                       number));
  }
  Totals totals{.peak_bytes = run.bytes.peak_bytes};
  if (!state_.stored) {  // else each unit is moved when it is read next
    const PeakScope scope(worker_.arena);
    zeroth_->settle(worker_.arena);
    totals.peak_bytes = std::max(totals.peak_bytes, scope.peak().total);
  }
  state_.step = number;
  state_.samples += static_cast<uint64_t>(s_.batch);
  after_step(run, totals, targets, report);
  return report;
}

}  // namespace tern
