#include "train/rank_trainer.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/visit_weights.h"
#include "program/lower.h"
#include "train/metric_rows.h"
#include "train/step_trace.h"
#include "train/tensor_state.h"

namespace tern {

std::optional<Preference> RankTrainer::prefer(std::vector<MicroBatch>& batches) {
  if (!s_.adapter || !s_.adapter->preference) return {};
  Preference p = weigh_pairs(in_.spec, state_.weights, *s_.adapter->preference, batches, compute(), s_.dtype);
  result_.counted_peak_bytes = std::max(result_.counted_peak_bytes, state_bytes() + p.peak_bytes);
  result_.byte_mismatches += static_cast<int64_t>(p.mismatches.size());
  return p;
}

StepReport RankTrainer::step(std::vector<MicroBatch>& batches, int64_t targets) {
  if (zeroth_) return zeroth_step(batches, targets);
  const int64_t number = state_.step + 1;
  StepReport report{
      .step = number, .total_steps = s_.schedule.total_steps, .learning_rate = learning_rate(s_.schedule, number)};
  int64_t own = targets;  // over which the loss is a mean
  if (s_.outer) {
    own = 0;
    for (const MicroBatch& b : batches) own += b.num_targets();
  }
  begin_step(*update_, number, [&](int64_t n) { return learning_rate(s_.schedule, n); });
  const std::optional<Preference> preference = prefer(batches);
  const ExecuteInput input{.spec = part_,
                           .weights = hooks_.companion ? hooks_.companion->weights() : state_.weights,
                           .gradients = &state_.gradients,
                           .micro_batches = batches,
                           .loss_scale = own > 0 ? 1.0 / static_cast<double>(own) : 0.0,
                           .compute = compute(),
                           .update = &*update_,
                           .robust = robust_ ? &*robust_ : nullptr,
                           .world = s_.ranks > 1 && !s_.outer ? &world() : nullptr,
                           .replicas = groups_.replicas.get(),
                           .same_experts = groups_.same_experts.get(),
                           .tables = groups_.tables.get(),
                           .own_weights = &state_.weights,
                           .arrivals = arrivals_,
                           .step_targets = own,
                           .predicted = predicted_,
                           .clock = clock_};
  const ExecuteResult run = run_unchanged(input, number);
  if (run.update)
    report.gradient_norm = run.update->gradient_norm;
  else if (targets == 0 && result_.idle_steps++ == 0)
    note(fmt::format("step {}: none of its tokens has a loss; no update was made (said once; counted at the end)",
                     number));
  if (outer_ && outer_step(*outer_, number, state_.optimizer.master, update_->gradients, world()))
    round_masters(part_, state_.optimizer, state_.weights);
  const Totals totals = gather_totals(run, batches.size());
  settle("the update");
  state_.step = number;
  state_.samples += static_cast<uint64_t>(s_.batch);
  message_bytes_ = std::max(message_bytes_, totals.message_bytes);
  if (targets > 0) result_.loss = report.loss = totals.loss_sum / static_cast<double>(targets);
  if (preference) {
    result_.loss = report.loss = preference->loss;
    report.accuracy = preference->accuracy, report.margin = preference->margin;
  }
  after_step(run, totals, targets, report);
  return report;
}

ExecuteResult RankTrainer::run_unchanged(const ExecuteInput& input, int64_t number) {
  const auto once = [&] { return run_step(input, number); };
  ExecuteResult run = once();
  if (!run.changed) return run;
  if (leads())
    note(fmt::format(
        "step {}: a message of rank {} to rank {} was changed on its way; the step is done again from the same weights",
        number, run.changed->from, run.changed->to));
  std::vector<Tensor> gradients = update_->gradients;
  if (part_.head().tied) gradients.push_back(dense_rows(head_of(state_.gradients).projection));
  for (const Tensor& t : gradients)
    if (!t.empty()) t.fill_zero();
  run = once();
  if (!run.changed) return run;
  throw Error(
      ErrorKind::peer,
      "a message of rank {} to rank {} was changed on its way, and one of this step had been before: the step is "
      "refused; the last checkpoint stands",
      run.changed->from, run.changed->to);
}

void RankTrainer::settle(const char* what) {
  if (const std::optional<ChangedMessage> changed = world().transport().settle())
    throw Error(ErrorKind::peer,
                "a message of rank {} to rank {} was changed on its way, after which {} cannot be trusted; the last "
                "checkpoint stands",
                changed->from, changed->to, what);
}

ExecuteResult RankTrainer::run_step(const ExecuteInput& input, int64_t number) {
  StepCompanion* const companion = hooks_.companion;
  if (!companion && !hooks_.gradients && !keeps_a()) return execute(program_, input);
  StepCalls calls{.between = [&] {
    change_gradients(number);
    if (companion && input.step_targets > 0) companion->update(number, learning_rate(s_.schedule, number));
  }};
  if (companion) {
    calls.before = [&](size_t micro) { companion->before(input.micro_batches[micro]); };
    calls.after = [&](size_t) { companion->after(update_->weights, update_->gradients); };
  }
  ExecuteInput in = input;
  in.calls = &calls;
  return execute(program_, in);
}

Compute RankTrainer::compute() {
  Compute c{.arena = worker_.arena,
            .multiply = s_.multiply,
            .tensor = groups_.matrices.get(),
            .context = groups_.rows.get(),
            .experts = groups_.mixture.get()};
  if (s_.adapter && s_.adapter->config.dropout > 0) c.dropout = {s_.seed, state_.step, 0};
  return c;
}

void RankTrainer::change_gradients(int64_t number) {
  const std::vector<ParameterInfo>& infos = update_->state.infos;
  if (keeps_a())
    for (size_t p = 0; p < infos.size(); ++p)
      if (infos[p].name.ends_with(".a")) update_->gradients[p].fill_zero();
  if (hooks_.gradients) hooks_.gradients({number, infos, update_->state.master, update_->gradients});
}

RankTrainer::Totals RankTrainer::gather_totals(const ExecuteResult& run, size_t micros) {
  std::vector<double> mine = run.losses;
  mine.resize(micros);  // zeros where the head is not
  mine.push_back(static_cast<double>(run.bytes.peak_bytes));
  mine.push_back(static_cast<double>(run.message_bytes + world().staging().peak_total() + groups_.staging_bytes() +
                                     (robust_ ? robust_->staging.peak_total() : 0) +
                                     (outer_ ? outer_->staging.peak_total() + outer_->pair_staging : 0)));
  mine.push_back(pass_seconds(run.trace));
  const RoutedRows* const routed = groups_.routed.get();
  if (routed)
    mine.insert(mine.end(),
                {routed->most, static_cast<double>(routed->more), static_cast<double>(routed->beyond.peak_total())});
  const std::vector<double> all = world().gather(mine);
  Totals totals;
  for (size_t first = 0; first < all.size(); first += mine.size()) {
    for (size_t m = 0; m < micros; ++m) totals.loss_sum += all[first + m];
    totals.peak_bytes += static_cast<int64_t>(all[first + micros]);
    totals.message_bytes += static_cast<int64_t>(all[first + micros + 1]);
    totals.pass_seconds.push_back(all[first + micros + 2]);
    if (routed)
      totals.rows.push_back({.most = all[first + micros + 3],
                             .more = static_cast<int64_t>(all[first + micros + 4]),
                             .bytes = static_cast<int64_t>(all[first + micros + 5])});
  }
  return totals;
}

void RankTrainer::after_step(const ExecuteResult& run, const Totals& totals, int64_t targets, StepReport& report) {
  if (!run.mismatches.empty()) {
    if (result_.byte_mismatches == 0)
      note(fmt::format("{}; this is a bug in tern's memory prediction", describe_mismatches(run)));
    result_.byte_mismatches += static_cast<int64_t>(run.mismatches.size());
  }
  const int64_t now = clock_.now_ns();
  const double tokens = static_cast<double>(s_.batch * s_.seq), seconds = seconds_between(last_ns_, now);
  last_ns_ = now;
  if (const int64_t later = state_.step - result_.first_step - 1; later > 0)
    result_.steady_step_seconds += (seconds - result_.steady_step_seconds) / static_cast<double>(later);
  report.tokens_per_s = rate(tokens, seconds);
  targets_ += targets;
  report.flops_per_s = rate(flops_of(tokens, static_cast<double>(targets)), seconds);
  report.share_of_peak = result_.peak.flops_per_s > 0 ? report.flops_per_s / result_.peak.flops_per_s : 0;
  if (report.share_of_peak > 1) raise_peak(report);
  report.memory_bytes = state_bytes() + totals.peak_bytes;
  result_.counted_peak_bytes = std::max(result_.counted_peak_bytes, report.memory_bytes);
  result_.last_step = state_.step;
  if (hooks_.step) hooks_.step(report);
  tell_slow_rank(totals);
  tell_uneven_rows(totals);
  // The second step is warm: kernels are made, pages are there.
  const bool trace_now = state_.step == std::min(result_.first_step + 2, s_.schedule.total_steps);
  if (trace_now && !s_.trace.empty()) write_trace(run);
}

void RankTrainer::tell_slow_rank(const Totals& totals) {
  if (!leads() || totals.pass_seconds.empty() || s_.tensor > 1 || s_.context_ranks > 1 || s_.expert_ranks > 1) return;
  if (!slow_) slow_.emplace(place_.replicas);
  if (const std::optional<std::string> text = slow_->add(totals.pass_seconds))
    note(fmt::format("step {}: {}", state_.step, *text));
}

void RankTrainer::tell_uneven_rows(const Totals& totals) {
  const bool first = !uneven_;
  uneven_ = uneven_rows(totals.rows);
  if (leads() && first && uneven_)
    note(fmt::format("step {}: {}", state_.step, describe_first(*uneven_, s_.capacity_factor)));
}

// A neighbour can only slow the probe down, so a step that beats it shows that the probe was disturbed.
void RankTrainer::raise_peak(StepReport& report) {
  const double before = result_.peak.flops_per_s;
  const int64_t begin = clock_.now_ns();
  result_.peak = raise_peak_rate(s_.dtype, s_.multiply, report.flops_per_s, !probe_beaten_);
  const int64_t spent = clock_.now_ns() - begin;
  begin_ns_ += spent, last_ns_ += spent;  // not the run's time
  report.share_of_peak = report.flops_per_s / result_.peak.flops_per_s;
  if (!probe_beaten_)
    note(fmt::format("a step ran faster than the peak that was kept ({:.0f} GFLOP/s): measured again, it is {:.0f}",
                     before * 1e-9, result_.peak.flops_per_s * 1e-9));
  probe_beaten_ = true;
}

// A picture is not worth a run: what the disk says of it is a note.
void RankTrainer::write_trace(const ExecuteResult& run) {
  const std::vector<TraceEvent> measured = gather_trace(all_, run.trace, run.begin_ns, world());
  if (!leads()) return;
  traced_ = true;
  try {
    const std::vector<TraceEvent> predicted =
        predicted_trace(all_, result_.peak.flops_per_s, s_.ranks, result_.stored ? result_.stored->bytes_per_s : 0);
    write_file_atomically(io_, s_.trace, chrome_trace(predicted, measured));
    note(fmt::format("trace of step {} written to {}: open it in ui.perfetto.dev", state_.step, s_.trace));
  } catch (const Error& e) { note(fmt::format("--trace {}: not written: {}", s_.trace, e.what())); }
}

}  // namespace tern
