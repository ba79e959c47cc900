#pragma once
// A training run from its settings to OUT/model: checks, resumes, trains, evaluates, saves, stops when asked.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/io.h"
#include "comm/worker.h"
#include "train/best_evaluation.h"
#include "train/evaluate.h"
#include "train/fit.h"
#include "train/peak_rate.h"
#include "train/settings.h"
#include "train/split_step.h"
#include "train/step_companion.h"

namespace tern {

struct StepReport {
  int64_t step = 0, total_steps = 0;
  std::optional<double> loss;  // nats per target token; absent: no token of the step has one, and no update was made
  std::optional<double> accuracy, margin;  // of pairs (train/preference.h), whose loss is a mean over pairs
  double learning_rate = 0, gradient_norm = 0;
  double tokens_per_s = 0, flops_per_s = 0;
  double share_of_peak = 0;  // flops_per_s / the probe's; 0: no probe for this dtype
  int64_t memory_bytes = 0;  // counted peak of the step
};

/// Called on the training thread. Empty ones are skipped.
struct TrainHooks {
  std::function<void(const std::string&)> note;   // something a person should know
  std::function<void(const std::string&)> phase;  // the name of a phase that takes time, before the first
                                                  // step
  std::function<void(const PredictedMemory&, const ModelSpec&)>
      planned;                                                         // predicted memory, before anything is allocated
  std::function<void(int64_t first_step, int64_t total_steps)> begun;  // training starts at this step
  std::function<void(const StepReport&)> step;                         // every step
  std::function<void(int64_t step, const Evaluation&)> evaluated;
  PackOptions pack;  // progress of packing text
  /// May add to the gradients; one rank alone.
  std::function<void(const StepGradients&)> gradients;
  StepCompanion* companion = nullptr;  // trained beside the adapter; one rank alone
};

/// Of optimizer states in a file, in this process.
struct StoredStatesReport {
  int64_t state_bytes = 0;                    // that each step reads and writes
  int64_t read_bytes = 0, written_bytes = 0;  // from and to the disk, in whole blocks; what is read ahead too
  double bytes_per_s = 0;  // of the disk, both ways together, as it was probed before the first step; 0: was not
  double disk_step_seconds = 0, waited_seconds = 0;  // what the disk alone takes for a step; what steps waited in all
};

/// stopped_early: by --patience.
enum class TrainEnd : uint8_t { finished, interrupted, planned_only, stopped_early };
struct TrainResult {
  TrainEnd end = TrainEnd::finished;
  int64_t first_step = 0, last_step = 0;     // steps done when this process began and ended
  std::optional<double> loss;                // of the last step of this process that had one
  int64_t idle_steps = 0;                    // steps none of whose tokens had a loss
  std::optional<Evaluation> evaluation;      // the last one
  std::optional<BestEvaluation> best;        // of the whole run, resumed or not
  double seconds = 0;                        // of training, evaluations apart
  double evaluation_seconds = 0;             // of the evaluations
  int64_t checkpoints = 0;                   // between steps; each is copied, and written while the next steps pass
  double checkpoint_seconds = 0;             // that steps waited for them: the last one's write, and the copy
  double steady_step_seconds = 0;            // mean of this process's steps but the first; 0: none
  double tokens_per_s = 0, flops_per_s = 0;  // over all steps of this process: their tokens in `seconds`
  PeakRate peak;
  PredictedMemory predicted;
  int64_t counted_peak_bytes = 0;  // state + highest step, as Arena counted
  int64_t peak_resident_bytes = 0;
  int64_t num_parameters = 0, byte_mismatches = 0;
  uint32_t program_checksum = 0;               // of a step's Program (program/checksum.h)
  std::string best_model;                      // of --keep-best; empty: none
  std::string checkpoint, model;               // newest checkpoint and exported directory; empty: none
  bool converses = false;                      // the model has a chat template
  int64_t outer_bytes = 0;                     // that all ranks sent to average, in this process
  std::optional<StoredStatesReport> stored{};  // of --states disk
};

/// Order   same binary, machine, threads and settings: the same bits, resumed or not, recomputed or not.
/// Workers any number of threads of one process may train at once, each with a Worker and an --output of its own: the
/// bits are those of as many processes. A run computes with the calling thread's team of threads.
/// Ranks   the Worker's world has `ranks` of them; all call train with the same settings and Io. Each has the state,
/// or its part (ZeRO, stages, tensor parallelism), and its share of every step's micro-batches; gradients are summed in the
/// settings' order, so the number of replicas changes no bit (spec/sum_order.h). Before each step they agree on its targets and
/// on a stop of any. Rank 0 checks memory and disk, packs data, evaluates, logs and saves; its result and hooks are the run's.
/// Stops   when the Worker's `stop` becomes true, or after max_seconds: the step is finished, then a checkpoint and
/// OUT/model are written. A stop also ends an evaluation at its next batch, with a note; a run whose last evaluation was
/// so ended counts as interrupted.
/// Seams   all that is written in OUT goes through the Io (files elsewhere, and the machine's cache of peak rates, are read and
/// written directly); max_seconds, rates, the log's times and the trace use the Worker's clock (the probe of the machine's peak
/// uses the real one).
/// Errors  peer, where another rank failed; usage, bad_file, does_not_fit before anything is written to OUT;
///         no_checkpoint (--resume must finds none, or none of those there verifies); diverged for gradients that are not
///         finite; the disk's errors.
TrainResult train(const TrainSettings&, const TrainHooks& = {}, Io& = real_io(), Worker = {});

}  // namespace tern
