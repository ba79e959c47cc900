#pragma once
// A training run from its settings to OUT/model: it checks, resumes, trains, evaluates, saves, and stops when it is asked to.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/io.h"
#include "comm/worker.h"
#include "formats/data/pack.h"
#include "train/best_evaluation.h"
#include "train/evaluate.h"
#include "train/fit.h"
#include "train/peak_rate.h"
#include "train/settings.h"
#include "train/step_companion.h"
#include "train/step_gradients.h"

namespace tern {

/// What a run says of a step.
struct StepReport {
  int64_t step = 0, total_steps = 0;
  std::optional<double> loss;  // nats per target token; absent: no token of the step has a loss, and no update was made
  std::optional<double> accuracy, margin;  // of pairs (train/preference.h), whose loss is a mean over pairs
  double learning_rate = 0, gradient_norm = 0;
  double tokens_per_s = 0, flops_per_s = 0;
  double share_of_peak = 0;  // flops_per_s / the probed peak; 0: no probe for this dtype
  int64_t memory_bytes = 0;  // counted peak of the step
};

/// Functions that the training thread calls. Empty ones are skipped.
struct TrainHooks {
  std::function<void(const std::string&)> note;  // with a sentence that a person should read
  // When a phase begins, with its name; only for phases before the first step and after the last that take a while.
  std::function<void(const std::string&)> phase;
  // Called before anything is allocated.
  std::function<void(const PredictedMemory&, const ModelSpec&)> predicted;
  // Called when training starts; first_step: steps done before.
  std::function<void(int64_t first_step, int64_t total_steps)> begun;
  std::function<void(const StepReport&)> step;                     // after every step
  std::function<void(int64_t step, const Evaluation&)> evaluated;  // after every evaluation
  PackOptions pack;                                                // how text is packed, and who hears of it
  // May change the gradients; only in a run of one rank.
  std::function<void(const StepGradients&)> gradients;
  // Trained beside the adapter; only in a run of one rank.
  StepCompanion* companion = nullptr;
};

/// What a run with --states disk found, in this process.
struct StoredStatesReport {
  int64_t state_bytes = 0;                    // bytes of states, which each step reads and writes
  int64_t read_bytes = 0, written_bytes = 0;  // from and to the disk, in whole blocks, including what was read ahead
  // The rate of the disk, reading and writing together, as probed before the first step; 0: not probed.
  double bytes_per_s = 0;
  double disk_step_seconds = 0;  // what the disk alone would take for a step at this rate
  double waited_seconds = 0;     // what all steps together waited for the disk
};

/// How a run ended. planned_only: with --dry-run, before anything was written. stopped_early: by --patience.
enum class TrainEnd : uint8_t { finished, interrupted, planned_only, stopped_early };
/// What a run did, in this process unless a member says otherwise.
struct TrainResult {
  TrainEnd end = TrainEnd::finished;
  int64_t first_step = 0, last_step = 0;     // steps done when this process began and ended
  std::optional<double> loss;                // of the last step that had one
  int64_t idle_steps = 0;                    // steps none of whose tokens had a loss
  std::optional<Evaluation> evaluation;      // the last one
  std::optional<BestEvaluation> best;        // of the whole run, resumed or not
  double seconds = 0;                        // of training, without evaluations
  double evaluation_seconds = 0;             // of the evaluations
  int64_t checkpoints = 0;                   // taken between steps; as a rule written while the next steps run
  double checkpoint_seconds = 0;             // spent between steps: waiting for the last write, then copying or writing
  double steady_step_seconds = 0;            // mean over all steps but the first; 0: there was at most one
  double tokens_per_s = 0, flops_per_s = 0;  // over all steps, by `seconds`
  PeakRate peak;
  PredictedMemory predicted;
  int64_t counted_peak_bytes = 0;  // most at any time, of all ranks: states with the peak of a step, evaluation or save
  int64_t peak_resident_bytes = 0;
  int64_t num_parameters = 0, byte_mismatches = 0;
  uint32_t program_checksum = 0;  // of a step's Program (program/checksum.h)
  std::string best_model;         // the directory of --keep-best; empty: none
  std::string checkpoint, model;  // newest checkpoint and exported directory; empty: none
  bool converses = false;         // the model has a chat template
  int64_t sent_bytes = 0;         // by all ranks to each other, up to the last checkpoint, since this process began
  int64_t outer_bytes = 0;        // sent for outer averages by all ranks, since this process began
  std::optional<StoredStatesReport> stored{};  // of --states disk
};

/// Runs one rank of a training run from its beginning, or from the newest checkpoint in OUT, to its end.
/// Order   the same binary, machine, threads and settings give the same bits, resumed or not, recomputed or not.
/// Workers threads of one process may train at once, each with its own Worker: the ranks of one run, and runs of different --output. Each run has
///         the bits that the run would have alone in a process. A run computes with the calling thread's team of threads.
/// Ranks   all ranks of the Worker's world call train with the same settings and Io. Each rank has the state or a part of the state (ZeRO,
///         stages, groups), and computes with the micro-batches of its data share. Gradients are summed in the settings' order (spec/sum_order.h). The number
///         of data shares changes no bit, unless stages or ZeRO 2 or 3 fix the order (train/settings_ranks.h). Before each step the ranks agree on the number of targets, and on whether to stop.
///         Rank 0 checks memory and disk, packs data, evaluates, logs and commits checkpoints; its result and hooks are those of the run.
/// Stops   when the Worker's `stop` becomes true, or after max_seconds. The run then finishes its step and writes a checkpoint and OUT/model.
///         A stop also ends an evaluation before the next batch, with a note. If that was the run's last evaluation, the run counts as
///         interrupted.
/// Seams   everything in OUT is written through the Io; files elsewhere, and the machine's cache of peak rates, are read and written
///         directly. max_seconds, rates, the log's times and the trace use the Worker's clock; the probe of the machine's peak uses the real
///         clock.
/// Errors  peer: another rank failed; usage, bad_file, does_not_fit: the settings, files or machine do not allow the run; OUT then holds at
///         most packed texts; no_checkpoint: there are
///         checkpoints but none verifies, or there are none and --resume is `must`; diverged: gradients are not finite; the disk's errors.
TrainResult train(const TrainSettings&, const TrainHooks& = {}, Io& = real_io(), Worker = {});

}  // namespace tern
