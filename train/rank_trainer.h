#pragma once
// One rank's run, for train/ alone.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/worker.h"
#include "exec/executor.h"
#include "report/metrics_log.h"
#include "train/checkpoint.h"
#include "train/mesh_fit.h"
#include "train/outer_run.h"
#include "train/preference.h"
#include "train/run_dir.h"
#include "train/slow_ranks.h"
#include "train/stages.h"
#include "train/train_state.h"
#include "train/trainer.h"
#include "update/perturbed_weights.h"

namespace tern {

/// One rank's run of train() (train/trainer.h), with everything that a step needs, made once. Its functions lie by subject:
/// what comes before the first step in rank_trainer_begin.cpp, a step in rank_trainer_step.cpp, what is evaluated, saved and
/// exported in rank_trainer_publish.cpp, and the loop over steps in trainer.cpp.
class RankTrainer {
 public:
  RankTrainer(const TrainSettings& settings, const TrainHooks& hooks, Io& io, Worker worker);
  TrainResult run();

 private:
  void note(const std::string& text) const {
    if (hooks_.note) hooks_.note(text);
  }
  void phase(const std::string& text) const {
    if (hooks_.phase) hooks_.phase(text);
  }
  Comm& world() const { return *worker_.world; }
  bool leads() const { return worker_.rank() == 0; }

  // --- before the first step (rank_trainer_begin.cpp) ---
  // What it would take, before anything is opened for writing or allocated.
  void plan();
  // Refuses ranks that differ in settings, data, build, kernels, threads or Program: they would train unlike models.
  void require_same_run();
  void check_room(int64_t process);
  void open();
  void open_feed_of_run();
  // Rank 0 packs, and alone: what is left for a text is all that the run may take beside the program.
  PackOptions pack_options();
  void resume_best();
  void prepare();
  void begin_stored_states();

  // --- the loop over steps (trainer.cpp) ---
  void train();
  void tell(const StepReport& report, bool last);
  // This rank's share of the next step: micro-batches are numbered over the ranks, one after the other.
  std::vector<MicroBatch> my_batches() const;
  // What all ranks must do alike. A stop of one is a stop of all, at the same step.
  struct Agreed {
    int64_t targets = 0;
    bool stop = false, gives_up = false;  // gives_up: --patience is at its end
  };
  Agreed agree(const std::vector<MicroBatch>& batches);

  // --- a step (rank_trainer_step.cpp) ---
  // Over all ranks: losses, added in the order of micro-batches, as one rank adds them; the ranks' peaks, added up.
  struct Totals {
    double loss_sum = 0;
    int64_t peak_bytes = 0, message_bytes = 0;
    std::vector<double> pass_seconds{};  // of each rank
  };
  StepReport step(std::vector<MicroBatch>& batches, int64_t targets);
  // The same without backward passes (rank_trainer_zeroth.cpp).
  StepReport zeroth_step(std::vector<MicroBatch>& batches, int64_t targets);
  void begin_gradient_source();
  // Until then a unit in a file may still be where the step before found it.
  void settle_zeroth_order();
  double flops_per_token() const;
  // Runs a step. If a message of it came changed, runs it once more from zero gradients. Errors  peer: changed again.
  ExecuteResult run_unchanged(const ExecuteInput&, int64_t number);
  // Checks the messages since the last check. `what` names what was made of them. Errors  peer: one came changed.
  void settle(const char* what);
  // Where pairs of answers are learned: their loss; gives each answer its weight in the gradient.
  std::optional<Preference> prefer(std::vector<MicroBatch>& batches);
  void change_gradients(int64_t number);
  ExecuteResult run_step(const ExecuteInput&, int64_t number);
  Totals gather_totals(const ExecuteResult& run, size_t micros);
  void after_step(const ExecuteResult& run, const Totals& totals, StepReport& report);
  // Of a group that shares out matrices or rows nothing is told: its ranks wait for each other inside the passes.
  void tell_slow_rank(const Totals& totals);
  // A neighbour can only slow the probe down, so a step that beats it shows that the probe was disturbed.
  void raise_peak(StepReport& report);
  // A disk that does not take the trace does not end the run; it is told as a note.
  void write_trace(const ExecuteResult& run);
  Compute compute();

  // Whether A of the adapter stays as it was given: its gradient is dropped, and it does not decay.
  bool keeps_a() const { return s_.adapter && !s_.adapter->trains_a; }
  // Bytes that lie there all the time: the state of this rank and the others, and what their messages wait in.
  int64_t state_bytes() const { return state_arena_.peak_total() + others_state_ + message_bytes_; }
  static double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

  // --- what others see (rank_trainer_publish.cpp) ---
  // Where ranks share weights out, each has only its own parts after a step. This brings all parts, as they are saved, to all
  // ranks or (parts_alone) to the first rank's whole_. Before the next step: release_weights.
  void gather_weights();
  void release_weights();
  // Evaluates the weights of gather_weights. False: a stop ended it, as whoever asked for one does not wait for all batches,
  // each of which may take seconds.
  bool add_evaluation(MetricRow& row);
  // The log first: a resume at this checkpoint relies on the rows up to it. What other ranks keep comes straight into the copy
  // that rank 0 writes.
  void save();
  Manifest manifest_now() const;
  void tell_stored();
  // A run that was complete before has nothing to save again, but its model may be missing or of an earlier step: a
  // kill can fall between the commit and the export.
  void finish();
  void keep_if_best(double loss);
  void write_page(bool runs);
  void tell_outer() const;
  void export_model(bool moved);
  bool in_stages() const { return place_.in_stages(); }
  // ZeRO 3, and matrices that are shared out: no rank has the whole model, or of stages its layers.
  bool parts_alone() const { return is_whole_for_a_while(s_); }
  // What passes read: whole_model, or units from their file.
  WeightSource weights_to_read();
  // What reads parameters that lie in a file; none where all of whole_model is in memory.
  ReadParameter parameter_reader();
  const ModelWeights& whole_model() const { return in_stages() || parts_alone() || s_.outer ? whole_ : state_.weights; }

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
  ModelWeights whole_;  // of the first rank, if its own are not the model: what is evaluated, written
  Arena whole_arena_;   // a whole_ that is there for that long alone
  Arena state_arena_;   // apart from the worker's, so that the writer's staging does not disturb the executor's counts
  TrainState state_;
  std::optional<RopeTable> rope_;
  std::optional<UpdatePass> update_;
  std::unique_ptr<PerturbedWeights> zeroth_;  // of --gradients zeroth-order
  std::optional<OuterStep> outer_;            // of runs whose ranks rarely talk
  std::optional<RobustStep> robust_;          // of runs whose gradients are aggregated
  Program all_, program_;                     // of all devices, of this rank's
  std::vector<std::vector<Buffer>> arrivals_;
  std::vector<InstructionBytes> predicted_;  // of the Program
  std::unique_ptr<MetricsLog> log_;
  std::unique_ptr<CheckpointWriter> writer_;
  int64_t begin_ns_ = 0, last_ns_ = 0, page_ns_ = 0;
  int64_t text_room_ = 0;  // bytes a document may take while it is packed
  bool probe_beaten_ = false, traced_ = false, page_failed_ = false;
  std::optional<SlowRanks> slow_;    // of the first rank
  BestEvaluation best_;              // likewise
  std::optional<MetricRow> missed_;  // by a run that was stopped in its evaluation
};

}  // namespace tern
