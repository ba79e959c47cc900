#pragma once
// A model between two tasks of a stream: it is read with the adapter of a task, run over texts, and written with the adapter merged into its
// weights.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/evaluate.h"
#include "train/inputs.h"

namespace tern {

/// The model with its weights. It cannot be copied.
/// read_task_model fills it in; `rope` stays absent if the model does not turn positions.
struct TaskModel {
  TrainInputs in;
  Arena arena;
  ModelWeights weights;
  std::optional<RopeTable> rope;
};

/// Reads the settings' model, and the adapter that AdapterSettings::begin names, if there is one. Errors: those of load_inputs, load_weights
/// and load_adapters.
void read_task_model(const TrainSettings&, DType, TaskModel&);
/// The data as windows of settings.seq tokens, in their order. A text is packed into `cache_dir` once. Errors: those of open_feed.
Feed feed_of(const TrainSettings&, const TaskModel&, const std::string& data, const std::string& cache_dir, Io&);
/// Bits per byte of a text, over at most --eval-batches batches of windows spread over it. None: `stopped` became true.
/// Errors  bad_file: the data have masked tokens, whose bytes are not known.
std::optional<double> bits_per_byte(const TrainSettings&, TaskModel&, const Feed&, DType,
                                    const std::function<bool()>& stopped);

/// (1/n)·Σ x·xᵀ (in, in) over the inputs x of every linear that has an adapter, by the name of its weight. It takes at most max_windows
/// windows, spread over the text. Products are in f32, sums over micro-batches in f64. Only for f32 models. `before` is called before each
/// micro-batch, which then is one window; it serves models that change from window to window.
std::map<std::string, std::vector<double>> input_covariances(const TrainSettings&, TaskModel&, const Feed&,
                                                             int64_t max_windows,
                                                             const std::function<void(const MicroBatch&)>& before = {});

/// Merges the adapter into the weights and writes the model, in the type `stored`, to a directory of its own. Errors: those of
/// merge_adapters and save_model.
void write_merged(TaskModel&, DType stored, const std::string& directory, Io&);

}  // namespace tern
