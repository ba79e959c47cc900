#include "train/rank_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/process_memory.h"
#include "base/units.h"
#include "model/allocate_weights.h"
#include "train/gather_model.h"
#include "train/metric_rows.h"
#include "train/run_checks.h"
#include "train/run_page_file.h"
#include "train/stored_run.h"
#include "train/tensor_state.h"

namespace tern {

// Where ranks share them out, each has the weights of its own parts alone after a step: all come to all, as they are saved, or
// (ZeRO 3) to the first rank's whole model. To go on: release_weights.
void RankTrainer::gather_weights() {
  settle_zeroth_order();
  put_weights_at(*update_, WeightPoint::saved);
  const Shares& shares = state_.optimizer.shares;
  if (s_.outer) {
    if (!leads()) return;
    whole_ = allocate_weights(in_.spec, s_.dtype, MemoryClass::weights, whole_arena_);
    return put_common(in_.spec, state_.optimizer, *state_.outer, whole_);
  }
  if (leads() && parts_alone()) whole_ = allocate_weights(in_.spec, s_.dtype, MemoryClass::weights, whole_arena_);
  if (in_stages() || parts_alone()) return gather_model(in_.spec, place_, s_.dtype, *update_, world(), whole_);
  if (!shares.any()) return;
  std::vector<size_t> places;
  std::vector<Tensor> weights;
  for (size_t p = 0; p < update_->weights.size(); ++p)
    if (shares.is_shared(p)) places.push_back(p), weights.push_back(update_->weights[p]);
  world().all_gather(parts_of(shares, places, weights));
}

void RankTrainer::release_weights() {
  put_weights_at(*update_, WeightPoint::computing);
  if (parts_alone() || s_.outer) whole_ = {};
}

// Whether it was done: a batch may take seconds, and who asked for a stop does not wait for all of them.
// The weights are those of gather_weights.
bool RankTrainer::add_evaluation(MetricRow& row) {
  const int64_t begin = clock_.now_ns();
  const auto stopped = [this] { return worker_.stop.load(); };
  const RopeTable* const rope = rope_ ? &*rope_ : nullptr;
  const std::optional<double> beta = s_.adapter ? s_.adapter->preference : std::nullopt;
  const int64_t windows = s_.eval_batches * s_.batch;
  const Evaluation e = beta ? evaluate_preference(in_.spec, whole_model(), *beta, *held_out_, windows, s_.dtype, rope,
                                                  worker_.arena, stopped)
                            : evaluate(in_.spec, weights_to_read(), *held_out_, s_.seq, windows, s_.micro_batch,
                                       s_.dtype, rope, worker_.arena, stopped);
  last_ns_ = clock_.now_ns();  // not part of the next step's time
  result_.evaluation_seconds += seconds_between(begin, last_ns_);
  result_.counted_peak_bytes =
      std::max(result_.counted_peak_bytes, state_bytes() + whole_arena_.current_total() + e.peak_bytes);
  if (!e.whole) {
    note(fmt::format("stopping: the evaluation of step {} is left unfinished and not logged", state_.step));
    return false;
  }
  row.step = state_.step;
  row.values.emplace_back("eval/held-out/loss", e.loss);
  if (e.accuracy) row.values.emplace_back("eval/held-out/accuracy", *e.accuracy);
  if (e.bits_per_byte) row.values.emplace_back("eval/held-out/bits_per_byte", *e.bits_per_byte);
  result_.evaluation = e;
  result_.byte_mismatches += static_cast<int64_t>(e.mismatches.size());
  if (hooks_.evaluated) hooks_.evaluated(state_.step, e);
  keep_if_best(e.loss);
  return true;
}

// Before the row goes to the log: whatever a checkpoint's log calls the best is there.
void RankTrainer::keep_if_best(double loss) {
  const bool best = best_.take(state_.step, loss);
  result_.best = best_;
  if (!best || !s_.keep_best) return;
  run_->export_model(in_, whole_model(), s_.dtype, {.step = state_.step}, s_.adapter ? &*s_.adapter : nullptr,
                     run_->best(), parameter_reader());
  result_.best_model = run_->best();
  const int64_t now = clock_.now_ns();  // not part of the next step's time either
  result_.evaluation_seconds += seconds_between(last_ns_, now);
  last_ns_ = now;
}

// Every kPageSeconds while it runs, and at the end. What the disk says of it is a note: a page is not worth a run.
void RankTrainer::write_page(bool runs) {
  if (runs && seconds_between(page_ns_, last_ns_) < kPageSeconds) return;
  page_ns_ = last_ns_;
  RunState state = page_state(s_, result_, state_.step, seconds_between(begin_ns_, last_ns_), runs);
  if (best_.step >= 0)
    state.facts.emplace_back("lowest held-out loss", fmt::format("{:.6g} at step {}", best_.loss, best_.step));
  if (const std::string fault = write_run_page(io_, *run_, state); !fault.empty()) {
    if (!page_failed_) note(fault);
    page_failed_ = true;
  }
}

// The log first: a resume at this checkpoint relies on the rows up to it.
void RankTrainer::save() {
  settle_zeroth_order();
  if (leads()) log_->sync();
  if (state_.stored)  // a copy of it has no room in memory: training waits
    return writer_->write_now(manifest_now(), stored_tensors(s_, state_));
  const std::vector<StateTensor> state = in_parts(state_tensors(s_, state_), in_.spec, place_.tensor);
  if (keeps_apart(s_)) return save_together(state);
  std::vector<NamedTensor> staged(state.size());
  if (leads()) {
    std::vector<TensorForm> forms;
    for (const StateTensor& t : state) forms.push_back({t.name, t.dtype, t.shape});
    staged = writer_->stage(forms);
  }
  for (size_t i = 0; i < state.size(); ++i) gather_to_first(world(), state[i], staged[i].tensor);
  settle("the checkpoint");
  if (!leads()) return;
  writer_->start(manifest_now(), std::move(staged));
}

// Nobody's numbers pass through another rank: what they write lies with the system, which is not memory of theirs.
void RankTrainer::save_together(const std::vector<StateTensor>& state) {
  const SafetensorsLayout layout = layout_of_state(state);
  std::unique_ptr<IoFile> data;
  if (leads()) {
    writer_->wait();
    data = begin_shared(io_, writing_, state_.step, layout);
  }
  world().barrier();  // the file is there
  if (!leads()) data = io_.open_append(shared_path(writing_, state_.step));
  const WrittenShare own = write_share(*data, layout, state, worker_.rank(), place_.tensor);
  if (!leads()) {
    // The first rank's sync is one of all that its machine wrote.
    if (worker_.processes_here > 0 && worker_.processes_here < s_.ranks) data->sync();
    data->close();
  }
  const WrittenShare all = join_shares(world(), own);
  settle("the checkpoint");
  if (!leads()) return;
  Manifest manifest = manifest_now();
  manifest.files = {file_of_shares(layout, all)};
  writer_->start(std::move(manifest), std::move(data));
}

Manifest RankTrainer::manifest_now() const {
  return {.step = state_.step,
          .samples = state_.samples,
          .settings = settings_,
          .made_by = made_by(s_, worker_.threads),
          .files = {}};
}

// A run that was complete before has nothing to save again, but its model may be missing or of an earlier step: a
// kill can fall between the commit and the export.
void RankTrainer::finish() {
  result_.last_step = state_.step;
  worker_.arena = Arena();  // what it keeps of freed activations goes back: staging takes their place
  const int64_t resident = worker_.processes_here > 0 && !leads() ? read_process_memory().peak_resident_bytes : 0;
  std::array<int64_t, 4> mismatches{result_.byte_mismatches, resident, outer_ ? outer_->sent_bytes : 0,
                                    world().bytes().sent};
  world().all_reduce(mismatches, Combine::sum);
  if (result_.byte_mismatches == 0 && mismatches[0] > 0)
    note("another rank counted other bytes than predicted; this is a bug in tern's memory prediction");
  result_.byte_mismatches = mismatches[0], result_.outer_bytes = mismatches[2];
  result_.sent_bytes = mismatches[3];
  if (leads() && outer_) tell_outer();
  if (const int64_t steps = state_.step - result_.first_step; leads() && world().size() > 1 && steps > 0)
    note(fmt::format("all ranks together sent {} in {}, {} a step on average", format_bytes(result_.sent_bytes),
                     counted(steps, "step"), format_bytes(result_.sent_bytes / steps)));
  if (state_.stored) tell_stored();
  const bool moved = state_.step > result_.first_step, saves = moved || result_.checkpoint.empty();
  if (saves) {
    phase("writing the checkpoint and the model");
    save();
    if (leads()) writer_->wait(), result_.checkpoint = join_path(run_->checkpoints(), checkpoint_name(state_.step));
  }
  gather_weights();
  settle("the model");
  if (!leads()) return;  // the rest is done once
  export_model(moved);
  result_.model = run_->model();
  write_page(false);
  result_.converses = (in_.tokenizer && in_.tokenizer->has_chat_template()) || !s_.chat_template.empty();
  const int64_t now = state_arena_.current_total() + others_state_ + message_bytes_ + whole_arena_.current_total();
  result_.counted_peak_bytes = std::max({result_.counted_peak_bytes, state_bytes(), now});
  result_.peak_resident_bytes = mismatches[1] + read_process_memory().peak_resident_bytes;
}

void RankTrainer::tell_stored() {
  const ExchangeCounts c = state_.stored->counts();
  StoredStatesReport& r = *result_.stored;
  r.read_bytes = c.read_bytes, r.written_bytes = c.written_bytes, r.waited_seconds = seconds_between(0, c.waited_ns);
  const int64_t steps = state_.step - result_.first_step;
  if (steps == 0) return;
  const std::string alone =
      r.disk_step_seconds > 0 ? fmt::format(", the disk alone takes {}", format_seconds(r.disk_step_seconds)) : "";
  note(fmt::format("optimizer states: {} read and {} written in {}; each step waited {} for them{}",
                   format_bytes(c.read_bytes), format_bytes(c.written_bytes), counted(steps, "step"),
                   format_seconds(r.waited_seconds / static_cast<double>(steps)), alone));
}

void RankTrainer::tell_outer() const {
  note(fmt::format("to average, all ranks together sent {} in {} steps", format_bytes(result_.outer_bytes),
                   state_.step - result_.first_step));
  const int64_t rest = state_.step - last_step_that_counts(*s_.outer, state_.step);
  if (rest == 0 || state_.step != s_.schedule.total_steps) return;
  if (s_.outer->delay == 0)
    note(fmt::format(
        "the last {} steps came after the last average and are not in the model: --outer-every {} does not divide "
        "--steps {}",
        rest, s_.outer->every, s_.schedule.total_steps));
  else
    note(fmt::format("the last {} steps are not in the model: averages count {} steps late", rest, s_.outer->delay));
}

void RankTrainer::export_model(bool moved) {
  const Manifest manifest = read_manifest(io_, result_.checkpoint);
  const ExportOf wanted{manifest.step, manifest.files.at(0).crc32c};
  const std::optional<ExportOf> there = run_->exported(run_->model());
  if (there == wanted) return;
  run_->export_model(in_, whole_model(), s_.dtype, wanted, s_.adapter ? &*s_.adapter : nullptr, run_->model(),
                     parameter_reader());
  if (!moved)
    note(fmt::format(
        "{} {}: written again from {}", run_->model(),
        there ? fmt::format("was of step {}", there->step) : "was not whole, as tern_export.json says it was,",
        result_.checkpoint));
}

}  // namespace tern
