#pragma once
// A stream of tasks: learned one after another, all of them judged after each.
//
//   OUT/stream.json            what was asked for; another request is refused
//   OUT/before.json            scores of the model as it came
//   OUT/01-NAME/run/           the task's run (train/run_dir.h), with the adapter
//   OUT/01-NAME/begin/         InfLoRA, GainLoRA: the directions that A is given, a PEFT directory
//   OUT/01-NAME/gated/         GainLoRA: all branches up to this task with their gates (adapt/gain_lora.h); gone when the next is done
//   OUT/01-NAME/memory.safetensors, kept.txt, model/   what the next task starts from, by method; gone when that one is done
//   OUT/alone-NAME/, OUT/together/   runs beside the stream, as tasks' directories
//   OUT/01-NAME/scores.json    written last: the task is done

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "adapt/gate_rule.h"
#include "adapt/input_memory.h"
#include "adapt/stream_file.h"
#include "adapt/stream_scores.h"
#include "train/trainer.h"

namespace tern {

enum class StreamMethod : uint8_t {
  seqlora,    // one adapter learns on
  inflora,    // A given by input_memory.h, B trained; folded into the weights after each task
  olora,      // a new adapter for each task, A kept away from those before; folded into the weights
  ewc,        // one adapter learns on; a penalty holds its numbers where they were
  replay,     // one adapter learns on, also from a share of earlier tasks' data
  gainlora,   // A given as inflora's, B trained; branches stay apart, each weighed by a gate that reads the prompt
  multitask,  // no stream: one run on all tasks' data together
};
/// Of a name as the options have it; absent: no method for streams.
std::optional<StreamMethod> stream_method(std::string_view name);
std::string_view name_of(StreamMethod);

struct StreamSettings {
  TrainSettings
      train;  // of every task; the stream sets data, output, where the adapter begins, and the steps of tasks that say theirs
  std::vector<StreamTask> tasks;
  StreamMethod method = StreamMethod::seqlora;
  InfloraMode mode = InfloraMode::code;
  double energy = 0.95;              // the share that energy_threshold begins with; behind the last task it would be 1
  int64_t statistics_windows = 256;  // of each task's data, at most; also of EWC's importances
  // gainlora's gates: hidden numbers, tokens of a text that they read, how they learn.
  int64_t gate_width = 100, gate_tokens = 32;
  GateUpdates gate_updates = GateUpdates::exact;
  double penalty = 0;  // EWC's and O-LoRA's weight
  double replay_share = 0.01;
  bool references = false;  // also a run on each task alone, and one on all together
};

struct StreamHooks {
  std::function<void(const std::string& what)> begun;          // work that takes time begins
  std::function<TrainHooks(const TrainSettings&)> train;       // of a task's run
  std::function<void(size_t task, const StreamScores&)> done;  // a task is judged
};

/// Of one task that is done.
struct TaskCost {
  int64_t trained = 0;                     // numbers
  int64_t kept_bytes = 0;                  // what the next task needs beside the model: an adapter, or memories
  int64_t protected_dim = 0, all_dim = 0;  // InfLoRA, GainLoRA: over all adapted inputs
  double seconds = 0;                      // of the process that finished it
};
struct StreamResult {
  TrainEnd end = TrainEnd::finished;
  StreamScores scores;
  std::vector<TaskCost> costs;
  std::string product;  // the last task's: an adapter, gated adapters, or the model it was folded into
};

/// Order   as train's: the same bits, killed and started again at any step or task border.
/// Disk    at most two folded models at once; of a finished task its adapter and scores.
/// Stops   as train. Errors: those of train; usage: OUT holds another stream, or a setting that streams do not take.
StreamResult run_stream(const StreamSettings&, const StreamHooks& = {}, Io& = real_io(),
                        const std::atomic<bool>& stop = kNeverStops);

/// Predicts the memory of a task's run, which is the same for all tasks (gainlora: of the last task's, at most). Nothing is written.
TrainResult forecast_stream(const StreamSettings&, const TrainHooks& = {});

}  // namespace tern
