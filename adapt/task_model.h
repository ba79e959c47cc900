#pragma once
// A model between two tasks: read with the adapter of a task, run over texts, written with the adapter merged into its weights.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/evaluate.h"
#include "train/inputs.h"

namespace tern {

struct TaskModel {
  TrainInputs in;
  Arena arena;
  ModelWeights weights;
  std::optional<RopeTable> rope;
};

/// settings.model, with the adapter that settings.adapter begins as, if there is one. Errors: those of load_inputs, load_weights
/// and load_adapters.
void read_task_model(const TrainSettings&, DType, TaskModel&);

/// A text cut into windows of settings.seq, in their order; packed into `cache_dir` once.
Feed feed_of(const TrainSettings&, const TaskModel&, const std::string& data, const std::string& cache_dir, Io&);

/// Bits per byte of a text, over at most --eval-batches batches of windows spread over it. None: `stopped` ended it.
/// Errors  bad_file: data with masked tokens, whose bytes are not known.
std::optional<double> bits_per_byte(const TrainSettings&, TaskModel&, const Feed&, DType,
                                    const std::function<bool()>& stopped);

/// (1/n)·Σ x·xᵀ of the inputs of every linear that carries an adapter, by the name of its weight; products in f32, sums over
/// micro-batches in f64. Of at most max_windows windows, spread over the text; f32 models. With `before` each window is a micro-batch,
/// and it is called before each, for models that change from window to window.
std::map<std::string, std::vector<double>> input_covariances(const TrainSettings&, TaskModel&, const Feed&,
                                                             int64_t max_windows,
                                                             const std::function<void(const MicroBatch&)>& before = {});

/// The model with its adapter as part of the weights, a directory of its own. Errors: those of merge_adapters and save_model.
void write_merged(TaskModel&, DType stored, const std::string& directory, Io&);

}  // namespace tern
