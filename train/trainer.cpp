#include "train/trainer.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "comm/equal_facts.h"
#include "kernels/dispatch.h"
#include "train/async_trainer.h"
#include "train/label_flip.h"
#include "train/metric_rows.h"
#include "train/rank_trainer.h"
#include "train/run_checks.h"
#include "train/settings_facts.h"
#include "train/settings_ranks.h"
#include "train/stop.h"
#include "train/update_notes.h"
#include "update/norm.h"

namespace tern {

RankTrainer::RankTrainer(const TrainSettings& settings, const TrainHooks& hooks, Io& io, Worker worker)
    : s_(settings), hooks_(hooks), io_(io), worker_(std::move(worker)), clock_(worker_.clock) {
  TERN_CHECK(worker_.world->size() == s_.ranks && sums_in_order(s_), "train: {} ranks in a world of {}", s_.ranks,
             worker_.world->size());
  TERN_CHECK(worker_.threads == num_compute_threads(), "train: a worker of {} threads on a thread with teams of {}",
             worker_.threads, num_compute_threads());
}

TrainResult RankTrainer::run() {
  predict();
  if (s_.dry_run) {
    result_.end = TrainEnd::planned_only;
    return std::move(result_);
  }
  open();
  prepare();
  try {
    train();
  } catch (const NotFiniteGradient& e) {
    if (robust_advice(s_).empty()) throw;
    throw Error(ErrorKind::diverged, "{}. {}", e.fact(), robust_advice(s_));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::peer) throw;
    throw Error(ErrorKind::peer, "step {}: {}", state_.step + 1, e.what());
  }
  finish();
  return std::move(result_);
}

void RankTrainer::train() {
  const int64_t total = s_.schedule.total_steps;
  result_.first_step = state_.step;
  if (hooks_.begun && state_.step < total) hooks_.begun(state_.step, total);
  begin_ns_ = last_ns_ = page_ns_ = clock_.now_ns();
  // Where ranks may send anything, or send between steps, nothing is to be settled.
  if (!s_.robust && !s_.outer) world().transport().keep_ledger(true);
  int64_t missed = missed_.has_value();
  world().agree({&missed, 1}, Combine::most);
  if (missed) gather_weights();
  if (missed_) {
    if (!add_evaluation(*missed_)) result_.end = TrainEnd::interrupted;
    if (!missed_->values.empty()) log_->append(std::move(*missed_));
  }
  if (missed) release_weights();
  while (state_.step < total) {
    std::vector<MicroBatch> batches = my_batches();
    const Agreed agreed = agree(batches);
    if (agreed.stop || agreed.gives_up) {
      if (!agreed.stop) result_.end = TrainEnd::stopped_early;
      break;
    }
    const StepReport report = step(batches, agreed.targets);
    const bool last = state_.step == total;
    if (evaluates_at(s_, state_.step)) gather_weights(), settle("the evaluation");
    if (leads()) tell(report, last);
    if (evaluates_at(s_, state_.step)) release_weights();
    if (s_.checkpoint_every > 0 && state_.step % s_.checkpoint_every == 0 && !last) {
      const int64_t begin = clock_.now_ns();
      save();
      ++result_.checkpoints, result_.checkpoint_seconds += seconds_between(begin, clock_.now_ns());
    }
    if (leads()) writer_->poll();
  }
  if (leads() && uneven_) note(describe_all(*uneven_, s_.capacity_factor));
  result_.seconds = seconds_between(begin_ns_, clock_.now_ns()) - result_.evaluation_seconds;
  const auto tokens = static_cast<double>(s_.batch * s_.seq * (state_.step - result_.first_step));
  result_.tokens_per_s = rate(tokens, result_.seconds);
  result_.flops_per_s = rate(flops_of(tokens, static_cast<double>(targets_)), result_.seconds);
  if (state_.step < total && result_.end != TrainEnd::stopped_early) result_.end = TrainEnd::interrupted;
  if (!s_.trace.empty() && !traced_)
    note(fmt::format(
        "--trace {}: not written, as {}", s_.trace,
        state_.step == result_.first_step ? "no step ran" : "the run ended before its second step, which is traced"));
}

void RankTrainer::tell(const StepReport& report, bool last) {
  MetricRow row;
  if (last || state_.step % s_.log_every == 0) row = row_of(report);
  if (evaluates_at(s_, state_.step) && !add_evaluation(row)) result_.end = TrainEnd::interrupted;
  if (!row.values.empty()) log_->append(std::move(row));
  if (!last) write_page(true);
}

// This rank's share of the next step: micro-batches are numbered over the ranks, one after the other.
std::vector<MicroBatch> RankTrainer::my_batches() const {
  const uint64_t first = state_.samples + static_cast<uint64_t>(place_.share() * rank_batch(s_));
  std::vector<MicroBatch> own = feed_->samples(first, rank_batch(s_), s_.micro_batch, rope_ ? &*rope_ : nullptr);
  for (size_t i = 0; i < own.size(); ++i)
    own[i].first_row = (place_.share() * rank_batch(s_) + static_cast<int64_t>(i) * s_.micro_batch) * s_.seq;
  if (const auto [place, ranks, ring] = place_.context; ranks > 1)
    for (MicroBatch& batch : own) batch = ring ? ring_part(batch, place, ranks) : context_part(batch, place, ranks);
  if (flips_labels(s_, worker_.rank())) flip_labels(own, in_.spec.vocab);
  if (hooks_.companion) hooks_.companion->choose_targets(own);
  return own;
}

RankTrainer::Agreed RankTrainer::agree(const std::vector<MicroBatch>& batches) {
  const bool gives_up = leads() && s_.patience && best_.since >= *s_.patience;
  std::array<int64_t, 3> sums{0, should_stop(worker_, s_, begin_ns_), gives_up};
  if (place_.device == 0 && place_.tensor.place == 0)  // all stages, and all of a tensor group, see the same
    for (const MicroBatch& b : batches) sums[0] += b.num_targets();
  world().agree(sums, Combine::sum);
  return {sums[0], sums[1] > 0, sums[2] > 0};
}

TrainResult train(const TrainSettings& settings, const TrainHooks& hooks, Io& io, Worker worker) {
  require_equal_facts(*worker.world, recipe_facts(settings.recipe_toml));
  if (settings.async) return train_async(settings, hooks, io, std::move(worker));
  return RankTrainer(settings, hooks, io, std::move(worker)).run();
}

}  // namespace tern
