#include "adapt/task_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/publish.h"
#include "model/adapter_files.h"
#include "model/linear.h"
#include "model/merge_adapters.h"
#include "model/model_files.h"
#include "model/visit_weights.h"
#include "program/generate.h"
#include "quantize/input_moments.h"
#include "train/run_dir.h"

namespace tern {

void read_task_model(const TrainSettings& s, DType dtype, TaskModel& model) {
  model.in = load_inputs(s);
  const ModelSpec& spec = model.in.spec;
  model.weights = load_weights(spec, model.in.dir.path, dtype, model.arena);
  if (s.adapter && !s.adapter->begin.empty()) load_adapters(spec, s.adapter->begin, dtype, model.weights, model.arena);
  if (spec.rope.kind != RopeKind::none) model.rope = rope_table(spec, s.seq, s.seq);
}

Feed feed_of(const TrainSettings& s, const TaskModel& model, const std::string& data, const std::string& cache_dir,
             Io& io) {
  return open_feed(s, model.in, data, cache_dir, {.seq = s.seq, .shuffle = false}, {}, io);
}

std::optional<double> bits_per_byte(const TrainSettings& s, TaskModel& model, const Feed& feed, DType dtype,
                                    const std::function<bool()>& stopped) {
  if (feed.data().has_loss())
    throw Error(ErrorKind::bad_file,
                "{}: some of its tokens have no loss, so their bytes are not known; a test is plain text, or JSONL "
                "with `text`",
                feed.data().info().source);
  const Evaluation e = evaluate(model.in.spec, model.weights, feed, s.seq, s.eval_batches * s.batch, s.micro_batch,
                                dtype, model.rope ? &*model.rope : nullptr, model.arena, stopped);
  if (!e.whole) return {};
  TERN_CHECK(e.bits_per_byte, "{}: no bytes are known", feed.data().info().source);
  return e.bits_per_byte;
}

std::map<std::string, std::vector<double>> input_covariances(const TrainSettings& s, TaskModel& model, const Feed& feed,
                                                             int64_t max_windows,
                                                             const std::function<void(const MicroBatch&)>& before) {
  std::map<const Linear*, std::string> names;
  for_each_linear(model.in.spec, model.weights, [&](const ParameterInfo& info, const Linear& linear) {
    if (!linear.branches.empty()) names.emplace(&linear, info.name);
  });
  InputMoments moments(model.arena, [&](const Linear& linear) { return names.contains(&linear); });
  const int64_t count = std::min(feed.num_windows(), max_windows), micro = before ? 1 : s.micro_batch;
  for (int64_t begin = 0; begin < count; begin += micro) {
    std::vector<int64_t> chosen;
    for (int64_t i = begin; i < std::min(begin + micro, count); ++i) chosen.push_back(feed.num_windows() * i / count);
    const MicroBatch batch = feed.windows(chosen, model.rope ? &*model.rope : nullptr);
    if (before) before(batch);
    const CostQuery query{.tokens = static_cast<int64_t>(chosen.size()) * s.seq,
                          .attended_pairs = attended_pairs_of(batch, 0),
                          .dtype = DType::f32,
                          .scratch = scratch_bytes(Multiply::exact, DType::f32)};
    execute(forward_program(model.in.spec, {&query, 1}), {.spec = model.in.spec,
                                                          .weights = model.weights,
                                                          .micro_batches = {&batch, 1},
                                                          .compute = {model.arena, Multiply::exact, &moments}});
  }
  std::map<std::string, std::vector<double>> covariances;
  for (const auto& [linear, name] : names) {
    const std::vector<double>* sum = moments.of(*linear);
    TERN_CHECK(sum, "'{}' saw no input", name);
    std::vector<double>& c = covariances[name] = *sum;
    for (double& x : c) x /= static_cast<double>(count * s.seq);
  }
  return covariances;
}

void write_merged(TaskModel& model, DType stored, const std::string& directory, Io& io) {
  merge_adapters(model.in.spec, model.weights, stored);
  OutputDirectory output(io, directory);
  save_model(model.in.spec, model.in.config, model.weights, stored, output.temporary(), io);
  if (model.in.tokenizer) model.in.tokenizer->save(output.temporary(), io);
  copy_companions(io, model.in, output.temporary());
  output.publish();
}

}  // namespace tern
