#include "train/async_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/process_memory.h"
#include "base/system.h"
#include "base/units.h"
#include "comm/equal_facts.h"
#include "formats/data/pack.h"
#include "model/linear.h"
#include "model/visit_weights.h"
#include "program/checksum.h"
#include "report/metrics_log.h"
#include "spec/training_flops.h"
#include "spec/unit_cost.h"
#include "train/arrivals_file.h"
#include "train/async_state.h"
#include "train/async_worker.h"
#include "train/disk_fit.h"
#include "train/metric_rows.h"
#include "train/nearest_fits.h"
#include "train/run_checks.h"
#include "train/run_page_file.h"
#include "train/settings_facts.h"
#include "train/stop.h"
#include "train/update_notes.h"

namespace tern {
namespace {

// Rank 0.
class AsyncServer {
 public:
  AsyncServer(const TrainSettings& settings, const TrainHooks& hooks, Io& io, Worker& worker)
      : s_(settings), hooks_(hooks), io_(io), worker_(worker), clock_(worker.clock) {}

  TrainResult run() {
    predict();
    world().barrier();  // nobody takes memory before that
    if (s_.dry_run) {
      result_.end = TrainEnd::planned_only;
      return std::move(result_);
    }
    open();
    prepare();
    serve();
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
  Transport& transport() const { return worker_.world->transport(); }
  int num_workers() const { return s_.async->rule.workers; }
  int64_t total() const { return s_.schedule.total_steps; }

  void predict() {
    in_ = load_inputs(s_);
    if (!s_.output.empty()) check_output(io_, s_.output, in_.dir);
    for (const std::string& text : in_.notes) note(text);
    const int64_t process = program_bytes() * (worker_.processes_here > 0 ? num_async_ranks(s_) : 1);
    result_.predicted = predict_memory(in_.spec, s_, process);
    result_.num_parameters = num_parameters(in_.spec);
    result_.program_checksum = checksum(gradient_program(in_.spec, s_));
    if (hooks_.predicted) hooks_.predicted(result_.predicted, in_.spec);
    for (const std::string& text : update_notes(in_.spec, s_)) note(text);
    int64_t budget =
        s_.memory_bytes ? *s_.memory_bytes : read_memory_facts().available_bytes + read_process_memory().resident_bytes;
    text_room_ = budget - process;
    require_fit(in_.spec, s_, result_.predicted, process, budget,
                s_.memory_bytes ? "allowed by --memory" : "free on this machine");
    require_disk(predict_disk(in_.spec, s_, io_), s_, io_);
    check_data_files(s_, in_);
  }

  void open() {
    run_ = std::make_unique<RunDirectory>(io_, s_.output);
    for (const std::string& text : run_->notes()) note(text);
    phase("reading the data");
    PackOptions pack = hooks_.pack;
    pack.memory_bytes = text_room_, pack.most_bytes = &result_.predicted.text;
    pack.tell = hooks_.note;
    const FeedConfig config{.seq = s_.seq, .seed = s_.seed, .shuffle = s_.shuffle};
    const Feed feed = open_feed(s_, in_, s_.data, run_->data(), config, pack, io_);
    world().barrier();
    settings_ = settings_facts(s_, identify(s_, in_, feed));
    require_equal_facts(world(), settings_);
    require_loss(s_, feed);
    note(describe_windows(feed, s_.seq));
    count_documents(feed, num_async_ranks(s_), text_room_, result_.predicted);
    if (!s_.valid_data.empty()) {
      held_out_ = std::make_unique<Feed>(
          open_feed(s_, in_, s_.valid_data, run_->data(), {.seq = s_.seq, .shuffle = false}, pack, io_));
      count_documents(*held_out_, 1, text_room_, result_.predicted);
    }
  }

  void prepare() {
    const CheckpointSearch search = look_for_checkpoint(io_, *run_, s_.resume, hooks_.note);
    if (search.newest) {
      require_same_settings(*search.newest, settings_, made_by(s_, worker_.threads), hooks_.note);
      result_.checkpoint = search.newest->path;
      phase(fmt::format("reading {}", result_.checkpoint));
      state_ = load_async_state(s_, in_, io_, result_.checkpoint, search.newest->manifest, state_arena_);
      note(fmt::format("resumed from {}", result_.checkpoint));
    } else {
      phase(s_.from_scratch ? "drawing the first weights" : "reading the weights");
      state_ = fresh_async_state(s_, in_, state_arena_);
    }
    if (!s_.async->replay.empty()) read_arrivals();
    for (const Tensor* t : trained_tensors(in_.spec, state_.train.gradients)) inbox_.push_back(*t);
    if (in_.spec.rope.kind != RopeKind::none) rope_ = rope_table(in_.spec, s_.seq, s_.seq);
    run_->write_recipe(s_.recipe_toml);
    log_ = std::make_unique<MetricsLog>(io_, run_->logs(), search.newest ? state_.train.step : -1, clock_);
    writer_ = std::make_unique<CheckpointWriter>(
        io_, state_arena_, CheckpointWriter::Config{run_->checkpoints(), run_->id(), s_.keep_checkpoints, 0});
    worker_peaks_.resize(static_cast<size_t>(num_workers()));
    worker_states_.resize(worker_peaks_.size());
    alive_.assign(worker_peaks_.size(), true);
  }

  void read_arrivals() {
    const std::string& path = s_.async->replay;
    arrivals_ = parse_arrivals(io_.read(path), path, num_workers());
    if (std::ssize(arrivals_) < total())
      throw Error(ErrorKind::usage, "--replay {}: {} arrivals, --steps {} takes as many; lower --steps", path,
                  arrivals_.size(), total());
    if (!std::equal(state_.arrivals.begin(), state_.arrivals.end(), arrivals_.begin()))
      throw Error(ErrorKind::usage,
                  "--replay {}: the checkpoint {} came about by another order of arrivals; choose another --output, or "
                  "say --resume never",
                  path, result_.checkpoint);
  }

  // --- receipts ---

  void send_work(int worker) {
    const AsyncOutstanding& o = state_.outstanding[static_cast<size_t>(worker)];
    std::vector<Tensor> all = o.weights;
    all.insert(all.end(), state_.train.optimizer.fixed.begin(), state_.train.optimizer.fixed.end());
    post(transport(), worker + 1, o.order, all);
  }

  // Of those that still work, or the one whose turn it is. Who leaves is told.
  int receive(AsyncHeader& header) {
    for (;;) {
      std::vector<int> from;
      for (int k = 0; k < num_workers(); ++k)
        if (alive_[static_cast<size_t>(k)]) from.push_back(k + 1);
      if (!arrivals_.empty() && !draining_) {
        const int turn = arrivals_[static_cast<size_t>(state_.clock.receipts)];
        if (!alive_[static_cast<size_t>(turn)])
          throw Error(ErrorKind::peer, "--replay {}: receipt {} is of worker {}, which has left", s_.async->replay,
                      state_.clock.receipts, turn);
        from = {turn + 1};
      }
      if (from.empty()) throw Error(ErrorKind::peer, "receipt {}: all workers have left", state_.clock.receipts);
      const int worker = receive_header(transport(), from, header) - 1;
      if (header.call != AsyncCall::leaves) return worker;
      alive_[static_cast<size_t>(worker)] = false;
      note(fmt::format("worker {} has left; the bucket of its last work stays short", worker));
    }
  }

  void take(int worker, const AsyncHeader& header) {
    receive_tensors(transport(), worker + 1, inbox_);
    const AsyncOutstanding& o = state_.outstanding[static_cast<size_t>(worker)];
    TERN_CHECK(header.index == o.order.index && header.dispatch == o.order.dispatch,
               "async: worker {} sent the gradient of work {}, it has {}", worker, header.dispatch, o.order.dispatch);
    worker_peaks_[static_cast<size_t>(worker)] =
        std::max(worker_peaks_[static_cast<size_t>(worker)], header.peak_bytes);
    worker_states_[static_cast<size_t>(worker)] = header.state_bytes;
    result_.byte_mismatches += header.mismatches;
  }

  void serve() {
    result_.first_step = result_.last_step = state_.train.step;
    if (hooks_.begun && state_.train.step < total()) hooks_.begun(state_.train.step, total());
    begin_ns_ = last_ns_ = page_ns_ = clock_.now_ns();
    const bool works = state_.train.step < total();
    for (int k = 0; works && k < num_workers(); ++k) send_work(k);
    while (state_.train.step < total() && !should_stop(worker_, s_, begin_ns_)) {
      AsyncHeader header;
      const int worker = receive(header);
      take(worker, header);
      const StepReport report = update(worker, header);
      give_work(state_, worker);
      state_.train.samples = static_cast<uint64_t>(state_.next_dispatch * s_.batch);
      const bool last = state_.train.step == total();
      tell(report, worker, last);
      if (s_.checkpoint_every > 0 && state_.train.step % s_.checkpoint_every == 0 && !last) save();
      writer_->poll();
      if (!last && !should_stop(worker_, s_, begin_ns_)) {
        send_work(worker);
      } else {
        stop_worker(worker);
        break;
      }
    }
    if (works) tell_drained(drain());
    result_.counted_peak_bytes = std::max(result_.counted_peak_bytes, counted());
    for (int k = 0; !works && k < num_workers(); ++k) stop_worker(k);
    transport().flush();
    result_.seconds = seconds_between(begin_ns_, clock_.now_ns()) - result_.evaluation_seconds;
    const double tokens = static_cast<double>(s_.batch * s_.seq * (state_.train.step - result_.first_step));
    result_.tokens_per_s = result_.seconds > 0 ? tokens / result_.seconds : 0;
    result_.flops_per_s =
        result_.seconds > 0 ? training_flops(in_.spec, s_.seq, tokens, static_cast<double>(targets_)) / result_.seconds
                            : 0;
    if (state_.train.step < total()) result_.end = TrainEnd::interrupted;
  }

  void stop_worker(int worker) {
    static constexpr AsyncHeader kStop{.call = AsyncCall::stop};
    post(transport(), worker + 1, kStop, {});
    alive_[static_cast<size_t>(worker)] = false;
  }
  // The others finish what they have; nobody uses it. Returns how many gradients came.
  int64_t drain() {
    int64_t unused = 0;
    draining_ = true;
    while (std::ranges::count(alive_, true) > 0) {
      AsyncHeader header;
      int worker = -1;
      try {
        worker = receive(header);
      } catch (const Error&) {
        if (std::ranges::count(alive_, true) > 0) throw;
        break;  // the last ones left by themselves
      }
      take(worker, header);
      stop_worker(worker);
      ++unused;
    }
    return unused;
  }

  void tell_drained(int64_t unused) const {
    if (unused == 0) return;
    const bool stopped = state_.train.step < total();
    note(fmt::format("{} ({} tokens) came after {} {} of {} and {} not counted: {}", tern::counted(unused, "gradient"),
                     format_with_commas(unused * s_.batch * s_.seq),
                     stopped ? "the run was stopped at receipt" : "receipt", state_.train.step, total(),
                     unused == 1 ? "is" : "are",
                     stopped ? "a run that goes on computes the same work again" : "no receipt was left for them"));
  }

  StepReport update(int worker, const AsyncHeader& header) {
    const double rate = learning_rate(s_.schedule, header.index + 1);
    // Gradients that are not finite change nothing: the run ends with what was there before.
    if (!std::isfinite(header.gradient_norm))
      throw Error(
          ErrorKind::diverged,
          "receipt {}: the gradient of worker {} is not finite; the update was refused. A lower "
          "--learning-rate usually helps; that is another run, so give it another --output or say --resume never",
          state_.clock.receipts, worker);
    const AsyncStep step = take_receipt(s_.async->rule, state_.clock, header.index, rate);
    const OptimizerState& o = state_.train.optimizer;
    for (size_t p = 0; p < inbox_.size(); ++p) apply_receipt(step, inbox_[p], o.master[p], o.slots[0][p]);
    state_.arrivals.push_back(worker);
    delay_ = step.delay;
    StepReport report{.step = ++state_.train.step,
                      .total_steps = total(),
                      .learning_rate = rate,
                      .gradient_norm = header.gradient_norm};
    if (header.targets > 0)
      result_.loss = report.loss = header.loss_sum / static_cast<double>(header.targets);
    else
      ++result_.idle_steps;
    const int64_t now = clock_.now_ns();
    const double seconds = seconds_between(last_ns_, now);
    last_ns_ = now;
    targets_ += header.targets;
    const auto tokens = static_cast<double>(s_.batch * s_.seq), targets = static_cast<double>(header.targets);
    report.tokens_per_s = seconds > 0 ? tokens / seconds : 0;
    report.flops_per_s = seconds > 0 ? training_flops(in_.spec, s_.seq, tokens, targets) / seconds : 0;
    report.memory_bytes = counted();
    result_.counted_peak_bytes = std::max(result_.counted_peak_bytes, report.memory_bytes);
    result_.last_step = state_.train.step;
    return report;
  }

  // Of the server and all workers that have sent something.
  int64_t kept_bytes() const {
    int64_t bytes = state_arena_.peak_total();
    for (const int64_t b : worker_states_) bytes += b;
    return bytes;
  }
  int64_t counted() const {
    int64_t bytes = kept_bytes() + evaluation_peak_;
    for (const int64_t b : worker_peaks_) bytes += b;
    return bytes;
  }

  void tell(const StepReport& report, int worker, bool last) {
    if (hooks_.step) hooks_.step(report);
    MetricRow row;
    if (last || state_.train.step % s_.log_every == 0) {
      row = row_of(report);
      row.values.emplace_back("async/worker", worker);
      row.values.emplace_back("async/delay", static_cast<double>(delay_));
    }
    if (evaluates_at(s_, state_.train.step)) evaluate_now(row);
    if (!row.values.empty()) log_->append(std::move(row));
    if (!last && seconds_between(page_ns_, last_ns_) >= kPageSeconds) write_page(true);
  }

  void write_page(bool runs) {
    page_ns_ = last_ns_;
    const RunState state = page_state(s_, result_, state_.train.step, seconds_between(begin_ns_, last_ns_), runs);
    if (const std::string fault = write_run_page(io_, *run_, state); !fault.empty()) {
      if (!page_failed_) note(fault);
      page_failed_ = true;
    }
  }

  void evaluate_now(MetricRow& row) {
    const int64_t begin = clock_.now_ns();
    const Evaluation e =
        evaluate(in_.spec, state_.train.weights, *held_out_, s_.seq, s_.eval_batches * s_.batch, s_.micro_batch,
                 s_.dtype, rope_ ? &*rope_ : nullptr, worker_.arena, [this] { return worker_.stop.load(); });
    last_ns_ = clock_.now_ns();
    result_.evaluation_seconds += seconds_between(begin, last_ns_);
    evaluation_peak_ = std::max(evaluation_peak_, e.peak_bytes);
    result_.counted_peak_bytes = std::max(result_.counted_peak_bytes, counted());
    row.step = state_.train.step;
    if (!e.whole) return note(fmt::format("stopping: the evaluation of step {} is left unfinished", row.step));
    row.values.emplace_back("eval/held-out/loss", e.loss);
    if (e.bits_per_byte) row.values.emplace_back("eval/held-out/bits_per_byte", *e.bits_per_byte);
    result_.evaluation = e;
    result_.byte_mismatches += static_cast<int64_t>(e.mismatches.size());
    if (hooks_.evaluated) hooks_.evaluated(state_.train.step, e);
  }

  void save() {
    log_->sync();
    write_file_atomically(io_, join_path(s_.output, "arrivals.txt"), arrivals_text(state_.arrivals, num_workers()));
    writer_->save({.step = state_.train.step,
                   .samples = state_.train.samples,
                   .settings = settings_,
                   .made_by = made_by(s_, worker_.threads),
                   .files = {}},
                  async_tensors(s_, state_));
  }

  void finish() {
    result_.last_step = state_.train.step;
    worker_.arena = Arena();
    const bool moved = state_.train.step > result_.first_step;
    if (moved || result_.checkpoint.empty()) {
      phase("writing the checkpoint and the model");
      save();
      writer_->wait();
      result_.checkpoint = join_path(run_->checkpoints(), checkpoint_name(state_.train.step));
    }
    const Manifest manifest = read_manifest(io_, result_.checkpoint);
    const ExportOf wanted{manifest.step, manifest.files.at(0).crc32c};
    if (run_->exported(run_->model()) != wanted)
      run_->export_model(in_, state_.train.weights, s_.dtype, wanted, nullptr, run_->model());
    result_.model = run_->model();
    write_page(false);
    result_.converses = (in_.tokenizer && in_.tokenizer->has_chat_template()) || !s_.chat_template.empty();
    result_.counted_peak_bytes = std::max(result_.counted_peak_bytes, kept_bytes());
    result_.peak_resident_bytes = read_process_memory().peak_resident_bytes;
  }

  const TrainSettings& s_;
  const TrainHooks& hooks_;
  Io& io_;
  Worker& worker_;
  Clock& clock_;
  TrainResult result_;
  TrainInputs in_;
  std::unique_ptr<RunDirectory> run_;
  std::unique_ptr<Feed> held_out_;
  Facts settings_;
  Arena state_arena_;
  AsyncServerState state_;
  std::vector<Tensor> inbox_;      // where a gradient arrives
  std::vector<int32_t> arrivals_;  // --replay's; empty: as they come
  std::optional<RopeTable> rope_;
  std::unique_ptr<MetricsLog> log_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::vector<int64_t> worker_peaks_, worker_states_;
  std::vector<bool> alive_;  // of each worker: it is waited for
  bool draining_ = false, page_failed_ = false;
  int64_t evaluation_peak_ = 0, begin_ns_ = 0, last_ns_ = 0, page_ns_ = 0, text_room_ = 0, delay_ = 0;
  int64_t targets_ = 0;  // tokens with a loss of all steps
};

void work_for(const TrainSettings& s, Io& io, Worker& worker) {
  const TrainInputs in = load_inputs(s);
  worker.world->barrier();  // memory is there
  if (s.dry_run) return;
  worker.world->barrier();  // data are packed
  const FeedConfig config{.seq = s.seq, .seed = s.seed, .shuffle = s.shuffle};
  const Feed feed = open_feed(s, in, s.data, RunDirectory::data_of(s.output), config, {}, io);
  require_equal_facts(*worker.world, settings_facts(s, identify(s, in, feed)));
  run_async_worker(s, in, feed, worker);
}

}  // namespace

TrainResult train_async(const TrainSettings& s, const TrainHooks& hooks, Io& io, Worker worker) {
  TERN_CHECK(worker.world->size() == num_async_ranks(s), "train: a server and {} workers in a world of {}",
             s.async->rule.workers, worker.world->size());
  if (worker.rank() == 0) return AsyncServer(s, hooks, io, worker).run();
  work_for(s, io, worker);
  return {};
}

}  // namespace tern
