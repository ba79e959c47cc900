#pragma once
// One rank's run of train(). For train/ alone.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/worker.h"
#include "exec/executor.h"
#include "formats/data/pack.h"
#include "model/read_parameter.h"
#include "report/metrics_log.h"
#include "train/checkpoint.h"
#include "train/mesh_fit.h"
#include "train/outer_run.h"
#include "train/preference.h"
#include "train/rank_groups.h"
#include "train/rank_place.h"
#include "train/run_dir.h"
#include "train/shared_checkpoint.h"
#include "train/slow_ranks.h"
#include "train/train_state.h"
#include "train/trainer.h"
#include "train/uneven_rows.h"
#include "update/perturbed_weights.h"

namespace tern {

/// One rank's run of train() (train/trainer.h). What steps need is made once, before the first. Its functions lie in files by subject: what
/// comes before the first step in rank_trainer_begin.cpp, the loop over steps in trainer.cpp, a step in rank_trainer_step.cpp and
/// rank_trainer_zeroth.cpp, and what is evaluated, saved and exported in rank_trainer_publish.cpp. Two functions that say where weights
/// are read, weights_to_read and parameter_reader, lie in rank_trainer_zeroth.cpp.
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
  // Predicts the run's memory, refuses what does not fit, and lowers the step's Program, before anything is opened for writing or allocated.
  void predict();
  // Refuses ranks that differ in settings, data, build, kernels, threads or Program: they would train unlike models.
  void require_same_run();
  // Refuses a run without room in memory or on the disk, unsuitable data files, a trace without a folder. `process`: bytes of the program itself.
  void check_room(int64_t process);
  void open();
  void open_feed_of_run();
  // Rank 0 packs alone while the other ranks wait, so a text may take all memory of the run except the program's own.
  PackOptions pack_options();
  void resume_best();
  void prepare();
  void begin_stored_states();

  // --- the loop over steps (trainer.cpp) ---
  void train();
  void tell(const StepReport& report, bool last);
  // The next step's micro-batches of this rank's data share. In a context group: this rank's rows of each micro-batch.
  std::vector<MicroBatch> my_batches() const;
  // What all ranks must decide alike. If one rank is asked to stop, all ranks stop at the same step.
  struct Agreed {
    int64_t targets = 0;
    bool stop = false, gives_up = false;  // gives_up: --patience is at its end
  };
  Agreed agree(const std::vector<MicroBatch>& batches);

  // --- a step (rank_trainer_step.cpp) ---
  // Of all ranks together. Losses are added in the order of micro-batches, as one rank adds them.
  struct Totals {
    double loss_sum = 0;
    int64_t peak_bytes = 0, message_bytes = 0;
    std::vector<double> pass_seconds{};  // of each rank
    std::vector<RankRows> rows{};        // of each rank; empty without expert groups
  };
  StepReport step(std::vector<MicroBatch>& batches, int64_t targets);
  // In rank_trainer_zeroth.cpp: a step without backward passes, and the three functions after it.
  StepReport zeroth_step(std::vector<MicroBatch>& batches, int64_t targets);
  void begin_gradient_source();
  // Updates units that lie in a file. Before the call they may lack the update of the last step.
  void settle_zeroth_order();
  double flops_of(double tokens, double targets) const;
  // Runs a step. If a message of it arrived changed, runs it once more from zero gradients. Errors  peer: a message arrived changed again.
  ExecuteResult run_unchanged(const ExecuteInput&, int64_t number);
  // Checks the messages since the last check. `what`: the work that needed these messages. Errors  peer: a message arrived changed.
  void settle(const char* what);
  // If the run learns from pairs of answers: takes their loss, and gives each answer its weight in the gradient.
  std::optional<Preference> prefer(std::vector<MicroBatch>& batches);
  void change_gradients(int64_t number);
  ExecuteResult run_step(const ExecuteInput&, int64_t number);
  Totals gather_totals(const ExecuteResult& run, size_t micros);
  void after_step(const ExecuteResult& run, const Totals& totals, int64_t targets, StepReport& report);
  // Notes a rank that is slower than the others; but not if groups share out matrices, rows or experts, as ranks then wait for each other in passes.
  void tell_slow_rank(const Totals& totals);
  // Notes the first step in which experts' rows took more memory than was predicted.
  void tell_uneven_rows(const Totals& totals);
  // Called when a step was faster than the probe of the machine's peak. Other programs can only slow the probe down, so the probe was disturbed.
  void raise_peak(StepReport& report);
  // If the disk refuses the trace, a note says so and the run goes on.
  void write_trace(const ExecuteResult& run);
  Compute compute();

  // Whether the adapter's A stays as it began: its gradient is dropped, and it does not decay.
  bool keeps_a() const { return s_.adapter && !s_.adapter->trains_a; }
  // Bytes that all ranks hold between steps: their states, and the memory in which messages wait.
  int64_t state_bytes() const { return state_arena_.peak_total() + others_state_ + message_bytes_; }
  static double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

  // --- what others see (rank_trainer_publish.cpp) ---
  // Turns the weights into those that are saved (WeightPoint::saved). Under ZeRO 1 and 2 it brings each rank's updated part to all ranks. With stages or
  // parts_alone it brings all parts to the first rank's whole_. With --outer whole_ gets the common weights. release_weights undoes this.
  void gather_weights();
  void release_weights();
  // Evaluates the weights that gather_weights brought. False: a stop ended the evaluation before all its batches, each of which may take
  // seconds.
  bool add_evaluation(MetricRow& row);
  // Writes a checkpoint. The log is written first, as a run that resumes here relies on its rows up to this step. If one rank keeps the whole
  // state, it writes a copy while training goes on (training waits if states lie on the disk); else all ranks write together.
  void save();
  // Each rank writes what it keeps into the one file, which rank 0 commits while training goes on.
  void save_together(const std::vector<StateTensor>&);
  Manifest manifest_now() const;
  void tell_stored();
  // Saves and exports at the end. A run that was complete before has nothing to save, but its model may be missing or of an earlier step, if
  // it was killed between the commit and the export.
  void finish();
  void keep_if_best(double loss);
  void write_page(bool runs);
  void tell_outer() const;
  void export_model(bool moved);
  bool in_stages() const { return place_.in_stages(); }
  // Whether ranks hold only parts of their layers' weights: under ZeRO 3, and in tensor and expert groups.
  bool parts_alone() const { return is_whole_for_a_while(s_); }
  // Where an evaluation reads weights: in whole_model, or in the file of units (rank_trainer_zeroth.cpp).
  WeightSource weights_to_read();
  // Reads parameters that lie in a file; empty if all of whole_model is in memory (rank_trainer_zeroth.cpp).
  ReadParameter parameter_reader();
  const ModelWeights& whole_model() const { return in_stages() || parts_alone() || s_.outer ? whole_ : state_.weights; }

  const TrainSettings& s_;
  const TrainHooks& hooks_;
  Io& io_;
  Worker worker_;
  Clock& clock_;
  TrainResult result_;
  TrainInputs in_;
  ModelSpec part_;  // the model as this rank has it: the whole, or its part of each matrix
  std::unique_ptr<RunDirectory> run_;
  std::unique_ptr<Feed> feed_, held_out_;
  Facts settings_;
  int64_t others_state_ = 0;   // bytes of the other ranks' states
  int64_t message_bytes_ = 0;  // the peak of the memory in which all ranks' messages wait
  RankPlace place_;
  RankGroups groups_;
  ModelWeights whole_;  // on the first rank: what is evaluated and written, if not its own weights (whole_model)
  Arena whole_arena_;   // of a whole_ that is there only while it is evaluated or written
  Arena state_arena_;   // not the worker's arena, so that the writer's staging does not disturb the executor's counts
  TrainState state_;
  std::optional<RopeTable> rope_;
  std::optional<UpdatePass> update_;
  std::unique_ptr<PerturbedWeights> zeroth_;   // of --gradients zeroth-order
  std::optional<OuterStep> outer_;             // of --outer
  std::optional<RobustStep> robust_;           // of --aggregator
  Program all_, program_;                      // of all devices; of this rank's device
  std::vector<std::vector<Buffer>> arrivals_;  // ExecuteInput::arrivals
  std::vector<InstructionBytes> predicted_;    // of program_
  std::unique_ptr<MetricsLog> log_;
  std::unique_ptr<CheckpointWriter> writer_;
  SharedPlace writing_;  // if keeps_apart
  int64_t targets_ = 0;  // tokens with a loss of all steps
  int64_t begin_ns_ = 0, last_ns_ = 0, page_ns_ = 0;
  int64_t text_room_ = 0;  // bytes a document may take while it is packed
  bool probe_beaten_ = false, traced_ = false, page_failed_ = false;
  std::optional<SlowRanks> slow_;     // on the first rank
  std::optional<UnevenRows> uneven_;  // where rows had no room
  BestEvaluation best_;               // on the first rank
  std::optional<MetricRow> missed_;   // if the resumed run was stopped in an evaluation: that evaluation's row
};

}  // namespace tern
