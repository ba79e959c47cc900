#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"
#include "base/units.h"
#include "comm/equal_facts.h"
#include "kernels/dispatch.h"
#include "kernels/onednn/fast_matmul.h"
#include "model/linear.h"
#include "model/tensor_parts.h"
#include "program/checksum.h"
#include "program/lower.h"
#include "program/validate.h"
#include "report/metrics_log.h"
#include "train/async_trainer.h"
#include "train/checkpoint.h"
#include "train/mesh_fit.h"
#include "train/metric_rows.h"
#include "train/outer_run.h"
#include "train/plan_settings.h"
#include "train/robust_settings.h"
#include "train/run_checks.h"
#include "train/run_dir.h"
#include "train/stages.h"
#include "train/step_trace.h"
#include "train/tensor_groups.h"
#include "train/tensor_state.h"
#include "train/train_state.h"

namespace tern {
namespace {

// Everything a step needs, made once.
class Trainer {
 public:
  Trainer(const TrainSettings& settings, const TrainHooks& hooks, Io& io, Worker worker)
      : s_(settings), hooks_(hooks), io_(io), worker_(std::move(worker)), clock_(worker_.clock) {
    TERN_CHECK(worker_.world->size() == s_.ranks && sums_in_order(s_), "train: {} ranks in a world of {}", s_.ranks,
               worker_.world->size());
    TERN_CHECK(worker_.threads == num_compute_threads(), "train: a worker of {} threads on a thread with teams of {}",
               worker_.threads, num_compute_threads());
  }

  TrainResult run() {
    plan();
    if (s_.dry_run) {
      result_.end = TrainEnd::planned_only;
      return std::move(result_);
    }
    open();
    prepare();
    try {
      train();
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::peer) throw;
      throw Error(ErrorKind::peer, "step {}: {}", state_.step + 1, e.what());
    }
    finish();
    return std::move(result_);
  }

 private:
  void note(const std::string& text) const {
    if (hooks_.note) hooks_.note(text);
  }
  void phase(const std::string& text) const {
    if (hooks_.phase) hooks_.phase(text);
  }
  Comm& world() const { return *worker_.world; }
  bool leads() const { return worker_.rank() == 0; }

  // What it would take, before anything is opened for writing or allocated.
  void plan() {
    in_ = load_inputs(s_);
    if (leads() && !s_.output.empty()) check_output(io_, s_.output, in_.dir);
    for (const std::string& text : in_.notes) note(text);
    check_planned_model(in_.spec, s_);
    check_tensor_ranks(in_.spec, s_);
    if (s_.outer)
      if (const std::string fault = outer_fault(*s_.outer, static_cast<int>(in_.spec.units.size())); !fault.empty())
        throw Error(ErrorKind::usage, "{}", fault);
    part_ = part_of_rank(in_.spec, {.ranks = s_.tensor});
    if (s_.multiply == Multiply::fast) load_fast_matmul();
    const int64_t process = program_bytes() * (worker_.processes_here > 0 ? s_.ranks : 1);
    result_.predicted = predict_memory(in_.spec, s_, process);
    result_.num_parameters = num_parameters(in_.spec);
    if (hooks_.planned) hooks_.planned(result_.predicted, in_.spec);
    if (leads()) check_room(process);
    world().barrier();  // nobody takes memory before that
    place_ = rank_place(in_.spec, s_, worker_.rank());
    const Placement placement = step_placement(in_.spec, s_, rank_batch(s_));
    all_ = lower(in_.spec, placement);
    check_valid(all_);
    program_ = all_.num_ranks == 1 ? all_ : lower(in_.spec, placement, place_.device);
    arrivals_ = arrivals_of(all_, place_.device);
    result_.program_checksum = checksum(all_);
    if (const std::string text = leads() ? plan_difference(s_, result_.program_checksum) : ""; !text.empty())
      note(text);
  }

  // All that would make ranks train unlike models, or sum unlike lists.
  void require_same_run() {
    Facts facts = settings_facts(s_, identify(s_, in_, *feed_));
    for (Facts::value_type& fact : made_by(s_, worker_.threads)) facts.push_back(std::move(fact));
    facts.emplace_back("program", fmt::format("{:08x}", result_.program_checksum));
    require_equal_facts(world(), facts);
  }

  void check_room(int64_t process) {
    // What is resident already is not available any more.
    int64_t budget =
        s_.memory_bytes ? *s_.memory_bytes : read_memory_facts().available_bytes + read_process_memory().resident_bytes;
    if (worker_.processes_here > 0) budget = budget / worker_.processes_here * s_.ranks;  // of machines like this one
    text_room_ = budget - process;
    require_fit(in_.spec, s_, result_.predicted, process, budget,
                s_.memory_bytes ? "allowed by --memory" : "free on this machine");
    require_disk(predict_disk(in_.spec, s_, io_), s_, io_);
    check_data_files(s_, in_);
    require_trace_place(s_.trace, io_);
  }

  void open() {
    if (leads()) {
      run_ = std::make_unique<RunDirectory>(io_, s_.output, s_.adapter ? "adapter" : "model");
      for (const std::string& text : run_->notes()) note(text);
      phase("reading the data");
      open_feed_of_run();
      world().barrier();
    } else {
      world().barrier();  // packed by now
      open_feed_of_run();
    }
    require_same_run();
    require_loss(s_, *feed_);
    if (!leads()) return;
    note(describe_windows(*feed_, s_.seq));
    if (!s_.valid_data.empty())
      held_out_ = std::make_unique<Feed>(
          open_feed(s_, in_, s_.valid_data, run_->data(), {.seq = s_.seq, .shuffle = false}, pack_options(), io_));
    settings_ = settings_facts(s_, identify(s_, in_, *feed_));
  }

  void open_feed_of_run() {
    const FeedConfig config{.seq = s_.seq, .seed = s_.seed, .shuffle = s_.shuffle};
    feed_ = std::make_unique<Feed>(
        open_feed(s_, in_, s_.data, RunDirectory::data_of(s_.output), config, pack_options(), io_));
  }

  // Rank 0 packs, and alone: what is left for a text is all that the run may take beside the program.
  PackOptions pack_options() {
    PackOptions pack = hooks_.pack;
    if (leads()) pack.memory_bytes = text_room_, pack.most_bytes = &result_.predicted.text;
    return pack;
  }

  void prepare() {
    std::string newest;
    if (leads()) {
      const CheckpointSearch search = look_for_checkpoint(io_, *run_, s_.resume, hooks_.note);
      if (search.newest) {
        require_same_settings(*search.newest, settings_, made_by(s_, worker_.threads), hooks_.note);
        newest = search.newest->path;
      }
    }
    newest = world().broadcast(std::move(newest), 0);
    if (!newest.empty()) {
      phase(fmt::format("reading {}", newest));
      state_ = load_state(s_, in_, io_, newest, read_manifest(io_, newest), state_arena_,
                          shares_of(in_.spec, s_, place_), place_.elsewhere, place_.tensor);
      result_.checkpoint = newest;
      note(fmt::format("resumed from {}", newest));
    } else {
      phase(s_.from_scratch ? "drawing the first weights" : "reading the weights");
      state_ = fresh_state(s_, in_, state_arena_, shares_of(in_.spec, s_, place_), place_.elsewhere, place_.tensor);
    }
    for (ParameterInfo& info : state_.optimizer.infos)
      if (keeps_a() && info.name.ends_with(".a")) info.decay = false;
    groups_ = stage_groups(in_.spec, place_, world());
    if (leads() && in_stages() && !parts_alone())
      whole_ = allocate_weights(in_.spec, s_.dtype, MemoryClass::weights, state_arena_);
    if (in_.spec.rope.kind != RopeKind::none) rope_ = rope_table(in_.spec, s_.seq, s_.seq);
    predicted_ = simulate(program_).replay;
    update_.emplace(make_update_pass(part_, state_.optimizer, s_.optimizer, state_.weights, state_.gradients));
    update_->weight_dtype = s_.dtype;
    if (s_.tensor > 1) update_->tensor = tensor_norm(part_, place_, groups_, state_.optimizer.shares);
    if (s_.adapter && s_.adapter->b_rate != 1)
      for (const ParameterInfo& info : state_.optimizer.infos)
        update_->rate_factors.push_back(info.name.ends_with(".b") ? s_.adapter->b_rate : 1);
    if (in_stages() && in_.spec.head().tied && place_.has_last() && !place_.has_first())
      update_->gradients[0] = dense_rows(head_of(state_.gradients).projection);  // of its copy of the table
    add_gradient_parts(*update_, s_.dtype == DType::f64 ? DType::f64 : DType::f32, state_arena_);
    if (s_.robust) robust_.emplace(RobustStep{.config = *s_.robust, .state = state_.optimizer.robust});
    if (s_.outer) outer_.emplace(OuterStep{.config = *s_.outer, .state = *state_.outer});
    put_weights_at(*update_, WeightPoint::computing);
    std::array<int64_t, 2> states{state_arena_.current_total(), state_.beginning_bytes};
    world().all_reduce(states, Combine::sum);
    others_state_ = states[0] - state_arena_.current_total();
    result_.counted_peak_bytes = states[1];
    if (!leads()) return;
    // One rank's probe says nothing of several that share the cores.
    if (s_.ranks == 1) result_.peak = peak_rate(s_.dtype, s_.multiply, [&] { phase("measuring the machine's peak"); });
    run_->write_recipe(s_.recipe_toml);
    missed_ = newest.empty() ? std::nullopt : row_without_evaluation(s_, io_, run_->logs(), state_.step);
    log_ = std::make_unique<MetricsLog>(io_, run_->logs(), newest.empty() ? -1 : state_.step - missed_.has_value(),
                                        clock_);
    writer_ = std::make_unique<CheckpointWriter>(
        io_, state_arena_,
        CheckpointWriter::Config{run_->checkpoints(), run_->id(), s_.keep_checkpoints, worker_.rank()});
  }

  // Where ranks share them out, each has the weights of its own parts alone after a step: all come to all, as they are saved, or
  // (ZeRO 3) to the first rank's whole model. To go on: release_weights.
  void gather_weights() {
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

  void release_weights() {
    put_weights_at(*update_, WeightPoint::computing);
    if (parts_alone() || s_.outer) whole_ = {};
  }

  bool in_stages() const { return place_.in_stages(); }
  // ZeRO 3, and matrices that are shared out: no rank has the whole model, or of stages its layers.
  bool parts_alone() const { return is_whole_for_a_while(s_); }
  const ModelWeights& whole_model() const { return in_stages() || parts_alone() || s_.outer ? whole_ : state_.weights; }

  void train() {
    const int64_t total = s_.schedule.total_steps;
    result_.first_step = state_.step;
    if (hooks_.begun && state_.step < total) hooks_.begun(state_.step, total);
    begin_ns_ = last_ns_ = clock_.now_ns();
    int64_t missed = missed_.has_value();
    world().all_reduce({&missed, 1}, Combine::most);
    if (missed) gather_weights();
    if (missed_) {
      if (!add_evaluation(*missed_)) result_.end = TrainEnd::interrupted;
      if (!missed_->values.empty()) log_->append(std::move(*missed_));
    }
    if (missed) release_weights();
    while (state_.step < total) {
      const std::vector<MicroBatch> batches = my_batches();
      const Agreed agreed = agree(batches);
      if (agreed.stop) break;
      const StepReport report = step(batches, agreed.targets);
      const bool last = state_.step == total;
      if (evaluates_at(s_, state_.step)) gather_weights();
      if (leads()) tell(report, last);
      if (evaluates_at(s_, state_.step)) release_weights();
      if (s_.checkpoint_every > 0 && state_.step % s_.checkpoint_every == 0 && !last) save();
      if (leads()) writer_->poll();
    }
    result_.seconds = seconds_between(begin_ns_, clock_.now_ns()) - result_.evaluation_seconds;
    result_.tokens_per_s =
        rate(static_cast<double>(s_.batch * s_.seq * (state_.step - result_.first_step)), result_.seconds);
    result_.flops_per_s = result_.tokens_per_s * training_flops_per_token(in_.spec, s_.seq);
    if (state_.step < total) result_.end = TrainEnd::interrupted;
    if (!s_.trace.empty() && !traced_)
      note(fmt::format(
          "--trace {}: not written, as {}", s_.trace,
          state_.step == result_.first_step ? "no step ran" : "the run ended before its second step, which is traced"));
  }

  void tell(const StepReport& report, bool last) {
    MetricRow row;
    if (last || state_.step % s_.log_every == 0) row = row_of(report);
    if (evaluates_at(s_, state_.step) && !add_evaluation(row)) result_.end = TrainEnd::interrupted;
    if (!row.values.empty()) log_->append(std::move(row));
  }

  bool stop_now() const {
    return worker_.stop || (s_.max_seconds && seconds_between(begin_ns_, clock_.now_ns()) >= *s_.max_seconds);
  }

  // This rank's share of the next step: micro-batches are numbered over the ranks, one after the other.
  std::vector<MicroBatch> my_batches() const {
    const uint64_t first = state_.samples + static_cast<uint64_t>(place_.replica * rank_batch(s_));
    std::vector<MicroBatch> own = feed_->samples(first, rank_batch(s_), s_.micro_batch, rope_ ? &*rope_ : nullptr);
    if (flips_labels(s_, worker_.rank())) flip_labels(own, in_.spec.vocab);
    return own;
  }

  // What all ranks must do alike. A stop of one is a stop of all, at the same step.
  struct Agreed {
    int64_t targets = 0;
    bool stop = false;
  };
  Agreed agree(const std::vector<MicroBatch>& batches) {
    std::array<int64_t, 2> sums{0, stop_now()};
    if (place_.device == 0 && place_.tensor.place == 0)  // all stages, and all of a tensor group, see the same
      for (const MicroBatch& b : batches) sums[0] += b.num_targets();
    world().all_reduce(sums, Combine::sum);
    return {sums[0], sums[1] > 0};
  }

  Compute compute() { return {.arena = worker_.arena, .multiply = s_.multiply, .tensor = groups_.matrices.get()}; }

  StepReport step(const std::vector<MicroBatch>& batches, int64_t targets) {
    const int64_t number = state_.step + 1;
    StepReport report{
        .step = number, .total_steps = s_.schedule.total_steps, .learning_rate = learning_rate(s_.schedule, number)};
    int64_t own = targets;  // over which the loss is a mean
    if (s_.outer) {
      own = 0;
      for (const MicroBatch& b : batches) own += b.num_targets();
    }
    begin_step(*update_, number, [&](int64_t n) { return learning_rate(s_.schedule, n); });
    const ExecuteInput input{.spec = part_,
                             .weights = state_.weights,
                             .gradients = &state_.gradients,
                             .micro_batches = batches,
                             .loss_scale = own > 0 ? 1.0 / static_cast<double>(own) : 0.0,
                             .compute = compute(),
                             .update = &*update_,
                             .robust = robust_ ? &*robust_ : nullptr,
                             .world = s_.ranks > 1 && !s_.outer ? &world() : nullptr,
                             .replicas = groups_.replicas.get(),
                             .tables = groups_.tables.get(),
                             .own_weights = &state_.weights,
                             .arrivals = arrivals_,
                             .step_targets = own,
                             .predicted = predicted_,
                             .clock = clock_};
    const bool split = hooks_.gradients || keeps_a();
    const ExecuteResult run =
        split ? execute_around(program_, input, [&] { change_gradients(number); }) : execute(program_, input);
    if (run.update)
      report.gradient_norm = run.update->gradient_norm;
    else if (targets == 0 && result_.idle_steps++ == 0)
      note(fmt::format("step {}: none of its tokens has a loss; no update was made (said once; counted at the end)",
                       number));
    if (outer_ && outer_step(*outer_, number, state_.optimizer.master, update_->gradients, world()))
      round_masters(part_, state_.optimizer, state_.weights);
    state_.step = number;
    state_.samples += static_cast<uint64_t>(s_.batch);
    const Totals totals = gather_totals(run, batches.size());
    message_bytes_ = std::max(message_bytes_, totals.message_bytes);
    if (targets > 0) result_.loss = report.loss = totals.loss_sum / static_cast<double>(targets);
    after_step(run, totals, report);
    return report;
  }

  // A of an adapter that is given: its gradient is dropped, nothing makes it decay.
  bool keeps_a() const { return s_.adapter && !s_.adapter->trains_a; }
  void change_gradients(int64_t number) {
    const std::vector<ParameterInfo>& infos = update_->state.infos;
    if (keeps_a())
      for (size_t p = 0; p < infos.size(); ++p)
        if (infos[p].name.ends_with(".a")) update_->gradients[p].fill_zero();
    if (hooks_.gradients) hooks_.gradients({number, infos, update_->state.master, update_->gradients});
  }

  // Of all ranks: losses in the order of micro-batches, as one rank adds them; the highest moments of the step.
  struct Totals {
    double loss_sum = 0;
    int64_t peak_bytes = 0, message_bytes = 0;
  };
  Totals gather_totals(const ExecuteResult& run, size_t micros) {
    std::vector<double> mine = run.losses;
    mine.resize(micros);  // zeros where the head is not
    mine.push_back(static_cast<double>(run.bytes.peak_bytes));
    mine.push_back(static_cast<double>(run.message_bytes + world().staging().peak_total() + groups_.staging_bytes() +
                                       (robust_ ? robust_->staging.peak_total() : 0) +
                                       (outer_ ? outer_->staging.peak_total() : 0)));
    const std::vector<double> all = world().gather(mine);
    Totals totals;
    for (size_t first = 0; first < all.size(); first += mine.size()) {
      for (size_t m = 0; m < micros; ++m) totals.loss_sum += all[first + m];
      totals.peak_bytes += static_cast<int64_t>(all[first + micros]);
      totals.message_bytes += static_cast<int64_t>(all[first + micros + 1]);
    }
    return totals;
  }

  // Bytes that lie there all the time: the state of this rank and the others, and what their messages wait in.
  int64_t state_bytes() const { return state_arena_.peak_total() + others_state_ + message_bytes_; }

  void after_step(const ExecuteResult& run, const Totals& totals, StepReport& report) {
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
    report.flops_per_s = report.tokens_per_s * training_flops_per_token(in_.spec, s_.seq);
    report.share_of_peak = result_.peak.flops_per_s > 0 ? report.flops_per_s / result_.peak.flops_per_s : 0;
    if (report.share_of_peak > 1) raise_peak(report);
    report.memory_bytes = state_bytes() + totals.peak_bytes;
    result_.counted_peak_bytes = std::max(result_.counted_peak_bytes, report.memory_bytes);
    result_.last_step = state_.step;
    if (hooks_.step) hooks_.step(report);
    // The second step is warm: kernels are made, pages are there.
    const bool trace_now = state_.step == std::min(result_.first_step + 2, s_.schedule.total_steps);
    if (trace_now && !s_.trace.empty()) write_trace(run);
  }

  // A neighbour can only slow the probe down, so a step that beats it shows that the probe was disturbed.
  void raise_peak(StepReport& report) {
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
  void write_trace(const ExecuteResult& run) {
    const std::vector<TraceEvent> measured = gather_trace(all_, run.trace, run.begin_ns, world());
    if (!leads()) return;
    traced_ = true;
    try {
      const std::vector<TraceEvent> predicted = predicted_trace(all_, result_.peak.flops_per_s, s_.ranks);
      write_file_atomically(io_, s_.trace, chrome_trace(predicted, measured));
      note(fmt::format("trace of step {} written to {}: open it in ui.perfetto.dev", state_.step, s_.trace));
    } catch (const Error& e) { note(fmt::format("--trace {}: not written: {}", s_.trace, e.what())); }
  }

  // Whether it was done: a batch may take seconds, and who asked for a stop does not wait for all of them.
  // The weights are those of gather_weights.
  bool add_evaluation(MetricRow& row) {
    const int64_t begin = clock_.now_ns();
    const Evaluation e =
        evaluate(in_.spec, whole_model(), *held_out_, s_.seq, s_.eval_batches * s_.batch, s_.micro_batch, s_.dtype,
                 rope_ ? &*rope_ : nullptr, worker_.arena, [this] { return worker_.stop.load(); });
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
    if (e.bits_per_byte) row.values.emplace_back("eval/held-out/bits_per_byte", *e.bits_per_byte);
    result_.evaluation = e;
    result_.byte_mismatches += static_cast<int64_t>(e.mismatches.size());
    if (hooks_.evaluated) hooks_.evaluated(state_.step, e);
    return true;
  }

  // The log first: a resume at this checkpoint relies on the rows up to it. What other ranks keep comes straight into the copy
  // that rank 0 writes.
  void save() {
    const std::vector<StateTensor> state = in_parts(state_tensors(s_, state_), in_.spec, place_.tensor);
    std::vector<NamedTensor> staged(state.size());
    if (leads()) {
      log_->sync();
      std::vector<TensorForm> forms;
      for (const StateTensor& t : state) forms.push_back({t.name, t.dtype, t.shape});
      staged = writer_->stage(forms);
    }
    for (size_t i = 0; i < state.size(); ++i) gather_to_first(world(), state[i], staged[i].tensor);
    if (!leads()) return;
    writer_->start({.step = state_.step,
                    .samples = state_.samples,
                    .settings = settings_,
                    .made_by = made_by(s_, worker_.threads),
                    .files = {}},
                   std::move(staged));
  }

  // A run that was complete before has nothing to save again, but its model may be missing or of an earlier step: a
  // kill can fall between the commit and the export.
  void finish() {
    result_.last_step = state_.step;
    worker_.arena = Arena();  // what it keeps of freed activations goes back: staging takes their place
    const int64_t resident = worker_.processes_here > 0 && !leads() ? read_process_memory().peak_resident_bytes : 0;
    std::array<int64_t, 3> mismatches{result_.byte_mismatches, resident, outer_ ? outer_->sent_bytes : 0};
    world().all_reduce(mismatches, Combine::sum);
    if (result_.byte_mismatches == 0 && mismatches[0] > 0)
      note("another rank counted other bytes than predicted; this is a bug in tern's memory prediction");
    result_.byte_mismatches = mismatches[0], result_.outer_bytes = mismatches[2];
    if (leads() && outer_) tell_outer();
    const bool moved = state_.step > result_.first_step, saves = moved || result_.checkpoint.empty();
    if (saves) {
      phase("writing the checkpoint and the model");
      save();
      if (leads()) writer_->wait(), result_.checkpoint = join_path(run_->checkpoints(), checkpoint_name(state_.step));
    }
    gather_weights();
    if (!leads()) return;  // the rest is done once
    export_model(moved);
    result_.model = run_->model();
    result_.converses = (in_.tokenizer && in_.tokenizer->has_chat_template()) || !s_.chat_template.empty();
    const int64_t now = state_arena_.current_total() + others_state_ + message_bytes_ + whole_arena_.current_total();
    result_.counted_peak_bytes = std::max({result_.counted_peak_bytes, state_bytes(), now});
    result_.peak_resident_bytes = mismatches[1] + read_process_memory().peak_resident_bytes;
  }

  void tell_outer() const {
    note(fmt::format("to average, all ranks together sent {} in {} steps", format_bytes(result_.outer_bytes),
                     state_.step - result_.first_step));
    if (const int64_t rest = state_.step % s_.outer->every; rest > 0 && state_.step == s_.schedule.total_steps)
      note(fmt::format(
          "the last {} steps came after the last average and are not in the model: --outer-every {} does not divide "
          "--steps {}",
          rest, s_.outer->every, s_.schedule.total_steps));
  }

  void export_model(bool moved) {
    const Manifest manifest = read_manifest(io_, result_.checkpoint);
    const ExportOf wanted{manifest.step, manifest.files.at(0).crc32c};
    const std::optional<ExportOf> there = run_->exported();
    if (there == wanted) return;
    run_->export_model(in_, whole_model(), s_.dtype, wanted, s_.adapter ? &s_.adapter->config : nullptr);
    if (!moved)
      note(fmt::format(
          "{} {}: written again from {}", run_->model(),
          there ? fmt::format("was of step {}", there->step) : "was not whole, as tern_export.json says it was,",
          result_.checkpoint));
  }

  static double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

  const TrainSettings& s_;
  const TrainHooks& hooks_;
  Io& io_;
  Worker worker_;
  Clock& clock_;
  TrainResult result_;
  TrainInputs in_;
  ModelSpec part_;  // as this rank has it: the whole, or its part of each matrix
  std::unique_ptr<RunDirectory> run_;
  std::unique_ptr<Feed> feed_, held_out_;
  Facts settings_;
  int64_t others_state_ = 0;   // bytes of the other ranks' states
  int64_t message_bytes_ = 0;  // that all ranks' messages wait in, at their most
  RankPlace place_;
  StageGroups groups_;
  ModelWeights whole_;  // of the first rank, in stages and under ZeRO 3: what is evaluated and written
  Arena whole_arena_;   // ZeRO 3's, which is there for that long alone
  Arena state_arena_;   // apart from the worker's, so that the writer's staging does not disturb the executor's counts
  TrainState state_;
  std::optional<RopeTable> rope_;
  std::optional<UpdatePass> update_;
  std::optional<OuterStep> outer_;    // of runs whose ranks rarely talk
  std::optional<RobustStep> robust_;  // of runs whose gradients are aggregated
  Program all_, program_;             // of all devices, of this rank's
  std::vector<std::vector<Buffer>> arrivals_;
  std::vector<InstructionBytes> predicted_;  // of the Program
  std::unique_ptr<MetricsLog> log_;
  std::unique_ptr<CheckpointWriter> writer_;
  int64_t begin_ns_ = 0, last_ns_ = 0;
  int64_t text_room_ = 0;  // bytes a document may take while it is packed
  bool probe_beaten_ = false, traced_ = false;
  std::optional<MetricRow> missed_;  // by a run that was stopped in its evaluation
};

}  // namespace

TrainResult train(const TrainSettings& settings, const TrainHooks& hooks, Io& io, Worker worker) {
  if (settings.async) return train_async(settings, hooks, io, std::move(worker));
  return Trainer(settings, hooks, io, std::move(worker)).run();
}

}  // namespace tern
