#pragma once
// A stream of tasks. A model learns them one after another, and after each task it is scored on all of them.
//
//   OUT/stream.json            the settings; a stream with other settings is refused
//   OUT/before.json            scores of the model before the first task
//   OUT/page.html              the scores as lines and tables (adapt/stream_page.h), written anew after each task
//   OUT/01-NAME/run/           the task's run (train/run_dir.h), with the adapter
//   OUT/01-NAME/begin/         InfLoRA, GainLoRA: the directions that A is given, a PEFT directory
//   OUT/01-NAME/gated/         GainLoRA: all branches up to this task with their gates (adapt/gain_lora.h); removed when the next task is
//                              done
//   OUT/01-NAME/memory.safetensors, kept.txt, model/   what the next task starts from, by method; removed when that task is done
//   OUT/alone-NAME/, OUT/together/   the runs of StreamSettings::references, with the same files as a task
//   OUT/01-NAME/scores.json    written last: if it is there, the task is done

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

/// How a task is learned, and what becomes of its adapter. (docs/continual.md)
enum class StreamMethod : uint8_t {
  seqlora,  // all tasks train one adapter
  inflora,  // A is given (adapt/input_memory.h), B is trained; after each task the adapter is merged into the weights
  olora,    // each task has a new adapter, whose A is kept away from those before; it is merged into the weights
  ewc,      // all tasks train one adapter; a penalty holds its numbers where they were
  replay,   // all tasks train one adapter, also from a share of earlier tasks' data
  // A is given as under inflora, B is trained; each task's branch stays, weighed by a gate that reads the prompt.
  gainlora,
  multitask,  // no stream: one run on all tasks' data together
};
/// The method of a name that --method takes; none: it is no method for streams.
std::optional<StreamMethod> stream_method(std::string_view name);
std::string_view name_of(StreamMethod);

struct StreamSettings {
  // The settings of every task. The stream sets data, output, the adapter's beginning, and total_steps for a task that says its steps.
  TrainSettings train;
  std::vector<StreamTask> tasks;
  StreamMethod method = StreamMethod::seqlora;
  InfloraMode mode = InfloraMode::code;
  double energy = 0.95;  // `first` of energy_threshold; its `last` is 1
  // The most windows of a task's data from which covariances and EWC's importances are taken.
  int64_t statistics_windows = 256;
  int64_t gate_width = 100;  // hidden numbers of gainlora's gates
  int64_t gate_tokens = 32;  // tokens of a text that a gate reads
  GateUpdates gate_updates = GateUpdates::exact;
  double penalty = 0;          // the weight of EWC's and O-LoRA's penalty
  double replay_share = 0.01;  // of a task's bytes
  bool references = false;     // also a run on each task alone, and a run on all together
};

/// Functions that the stream calls. Empty ones are skipped.
struct StreamHooks {
  std::function<void(const std::string& what)> begun;          // when work begins that takes time
  std::function<TrainHooks(const TrainSettings&)> train;       // gives the hooks of a task's run
  std::function<void(size_t task, const StreamScores&)> done;  // when the model was scored after a task
  std::function<void(const std::string&)> note;                // with a sentence that a person should read
};

/// What a finished task took.
struct TaskCost {
  int64_t trained = 0;     // numbers that it trained
  int64_t kept_bytes = 0;  // what the next task needs beside the model: an adapter, or memories
  // InfLoRA, GainLoRA: protected directions and all directions, summed over adapted inputs.
  int64_t protected_dim = 0, all_dim = 0;
  double seconds = 0;  // of the process that finished it
};

struct StreamResult {
  TrainEnd end = TrainEnd::finished;
  StreamScores scores;
  std::vector<TaskCost> costs;  // by task
  // The path of the last task's adapter, gated adapters, or model with the adapter merged in.
  std::string product;
};

/// Learns the tasks that are not done yet, one after another, and scores the model after each.
/// Order   a stream that was killed and started again, at any step or between tasks, gives the same bits as one that was not.
/// Disk    at most two models with merged adapters lie there at once; of a finished task its adapter and scores stay.
/// Stops   as train. Errors: those of train; usage: OUT holds another stream, or streams do not take a setting. What is
///         refused before the first task leaves no OUT.
StreamResult run_stream(const StreamSettings&, const StreamHooks& = {}, Io& = real_io(),
                        const std::atomic<bool>& stop = kNeverStops);

/// The stream in a sentence: the method, each task with its steps, and the runs of StreamSettings::references.
std::string describe_stream(const StreamSettings&);

/// Predicts the memory of a task's run (TrainResult::predicted). It is the same for all tasks; under gainlora it is that of the last task,
/// which is the most. Nothing is written.
TrainResult forecast_stream(const StreamSettings&, const TrainHooks& = {});

}  // namespace tern
