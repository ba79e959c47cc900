#pragma once
// Tests only: a small model in files, larger than the memory that it is given, and what runs of it leave.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "formats/format_test_support.h"
#include "infer/engine.h"
#include "infer/executor.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "infer/run.h"
#include "infer/step_recorder.h"
#include "infer/stream_plan.h"
#include "model/adapter_files.h"
#include "model/coded_model_testing.h"
#include "model/load_streamed.h"
#include "model/model_testing.h"
#include "program/validate.h"
#include "store/scratch_testing.h"

namespace tern {

/// Of many layers: weights, not what threads keep, are most of what it takes.
struct StepModel {
  explicit StepModel(const char* family, DType stored = DType::bf16, DType computed = DType::bf16) {
    HfConfig config = tiny_config(family);
    config.hidden_size = 96, config.intermediate_size = 160, config.vocab_size = 400;
    config.num_hidden_layers = std::max<int64_t>(config.num_hidden_layers, 6);
    for (size_t i = 0;
         !config.windowed_layers.empty() && std::ssize(config.windowed_layers) < config.num_hidden_layers;)
      config.windowed_layers.push_back(config.windowed_layers[i++]);
    if (config.num_experts > 0) config.num_experts = 8;
    if (config.expert_size > 0) config.expert_size = 96;
    if (config.shared_expert_size > 0) config.shared_expert_size = 128;
    if (config.head_dim != 0) config.head_dim = config.hidden_size / config.num_attention_heads;  // which some ask for
    const ModelSpec spec = model_spec(config);
    Arena arena;
    save_model(spec, config, random_weights(spec, DType::f32, arena, 3), stored, dir / "model", real_io());
    model = describe_model(dir / "model", computed);
  }
  /// A GGUF file, its matrices in turn of these types; `integers`: its codes are multiplied in integers.
  StepModel(const std::vector<WeightType>& types, DType computed, bool integers = false, const char* family = "llama",
            bool tied = false)
      : in_integers(integers) {
    write_coded_model(coded_config(family, tied), types, dir / "model.gguf");
    model = describe_model(dir / "model.gguf", computed);
  }
  /// A directory of codes of this type, multiplied in integers.
  StepModel(WeightType type, DType computed, bool tied) : in_integers(true) {
    write_coded_directory(coded_config("llama", tied), type, dir / "coded");
    model = describe_model(dir / "coded", computed);
  }
  /// Gives it an adapter as `generate --adapter` does.
  void adapt(const PeftConfig& config) {
    const ModelSpec adapted = with_adapters(model.spec, config, "the test");
    Arena arena;
    save_adapters(adapted, config, random_weights(adapted, DType::f32, arena, 7), dir / "adapter", real_io());
    take_adapter(model, dir / "adapter");
  }
  static InferenceNeeds needs(int64_t sequences = 1) {
    return {.context = 28, .sequences = sequences, .page_tokens = 4, .iteration_tokens = 7, .logit_rows = 1};
  }
  /// With so many percent of what it takes whole; nullopt: that is too little.
  std::optional<StreamPlan> plan(int64_t percent, const RingSettings& ring, int64_t least = 1) const {
    const int64_t whole = inference_fit(model.spec, model.dtype, needs()).total();
    InferenceNeeds n = needs();
    n.in_integers = in_integers;
    try {
      return plan_stream(model, n, {whole * percent / 100, "the test"}, ring, {.most = 4000, .least = least});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::does_not_fit) throw;
      return std::nullopt;
    }
  }
  /// With a window, and memory enough.
  StreamPlan plan(const StreamWindow& window, int threads) const {
    InferenceNeeds with = needs();
    with.window = window;
    return plan_stream(model, with, {int64_t{1} << 40, "the test"}, {.threads = threads}, {.most = 4000, .least = 1});
  }
  TemporaryDirectory dir;
  ModelDescription model;
  bool in_integers = false;
};

/// Windows over a model of six layers or more: TPI-LLM's, and Superpipeline's parameters.
inline std::vector<StreamWindow> some_stream_windows() {
  return {{WindowOf::block, 1}, {WindowOf::block, 2},    {WindowOf::block, 5},    {WindowOf::layer, 1},
          {WindowOf::layer, 3}, {WindowOf::layer, 2, 2}, {WindowOf::layer, 4, 3}, {WindowOf::layer, 7, 2}};
}

/// Its weights, whole (no plan) or those of a plan. `files`: reads them; null: the disk.
struct StepLoaded {
  StepLoaded(const StepModel& m, const StreamPlan* plan, std::unique_ptr<BlockFiles> files = nullptr) {
    if (!plan) {
      whole = load_for_inference(m.model, arena, m.in_integers ? WeightsIn::coded_int8 : WeightsIn::mapped_file);
      return;
    }
    if (!files) files = open_blocks(plan->bands.paths).files;
    streamed = load_streamed(m.model.spec, m.model.dir.path, m.model.dtype, plan->bands, plan->stays, std::move(files),
                             plan->ring, arena, plan->cache);
    load_adapter_of(m.model, streamed.weights, arena);
    streams = true;
  }
  const ModelWeights& weights() const { return streams ? streamed.weights : whole; }
  Arena arena;
  ModelWeights whole;
  StreamedModel streamed;
  bool streams = false;
};

// One run of a prompt of 19 tokens in chunks of 7, then 6 tokens: steps of 7, 7, 5, 1, 1, … tokens, of which the first two make no logits.
struct RecordedRun {
  RecordedRun(const StepModel& m, StepLoaded& loaded, int64_t keys_on_disk, const RecorderSettings& settings = {},
              int64_t samples = 1)
      : num_pages(kv_pages(StepModel::needs(samples))),
        recorder(settings),
        pool(kv_shape(m.model.spec, 4, m.model.dtype), num_pages, arena, disk(m, keys_on_disk)) {
    const RopeTable rope = rope_table(m.model.spec, 28, 28);
    const BatchExecutor inner = model_executor(m.model.spec, loaded.weights(), &rope, loaded.arena, 0, &recorder);
    const auto execute = [&](const Batch& batch, const KvPool& of) {
      Tensor out = inner(batch, of);
      if (out.empty()) return out;
      if (out.dtype() == DType::f64)
        logits.insert(logits.end(), out.span<double>().begin(), out.span<double>().end());
      else
        logits.insert(logits.end(), out.span<float>().begin(), out.span<float>().end());
      return out;
    };
    EngineLimits limits{.context = 28};
    limits.scheduler.chunk = limits.scheduler.token_budget = 7;
    Engine engine(pool, execute, nullptr, limits, real_clock());
    Request request;
    request.prompt = random_tokens(19, m.model.spec.vocab, 5);
    request.max_tokens = 6;
    request.num_samples = samples;
    run_request(engine, request, {}, {}, nullptr);
  }
  std::shared_ptr<KvOnDisk> disk(const StepModel& m, int64_t layers) {
    if (layers == 0) return nullptr;
    const KvShape shape = kv_shape(m.model.spec, 4, m.model.dtype);
    return std::make_shared<KvOnDisk>(std::make_unique<MemoryScratch>(kv_file_bytes(shape, num_pages, layers, 64), 64),
                                      shape, num_pages, layers, arena);
  }
  Arena arena;
  int64_t num_pages;
  StepRecorder recorder;
  KvPool pool;
  std::vector<double> logits;
};

inline constexpr RecorderSettings kThreeSteps{.first = 1, .count = 3};  // without logits, the prompt's end, a token

inline void expect_as_listed(const RecordedSteps& r, const char* what) {
  EXPECT_EQ(validate(r.program, ProgramKind::inference), std::vector<std::string>{}) << what;
  EXPECT_TRUE(r.mismatches.empty()) << what << ": " << r.mismatches.size() << ", first " << r.mismatches[0];
  ASSERT_EQ(r.events.size(), r.program.instructions.size());
  for (size_t k = 0; k < r.events.size(); ++k) {
    const Instruction& i = r.program.instructions[k];
    EXPECT_GE(r.events[k].duration_s, 0) << what << ": " << to_string(i);
    if (i.op != Opcode::forward && r.moved[k] >= 0) {
      EXPECT_EQ(r.moved[k], i.message_bytes) << what << ": " << to_string(i);
    }
  }
}

// Each part begins behind the LOAD of its extent and behind the part before it; a STORE behind its unit.
inline void expect_in_order(const RecordedSteps& r) {
  double compute_end = -1e9;
  std::map<Buffer, double, decltype([](const Buffer& a, const Buffer& b) {
             return std::tie(a.kind, a.micro, a.unit, a.part) < std::tie(b.kind, b.micro, b.unit, b.part);
           })>
      loaded;
  constexpr double kNs = 1e-9;
  for (size_t k = 0; k < r.events.size(); ++k) {
    const Instruction& i = r.program.instructions[k];
    const TraceEvent& e = r.events[k];
    if (i.op == Opcode::load && r.moved[k] > 0) loaded[i.allocates[0].buffer] = e.start_s + e.duration_s;
    if (i.op == Opcode::forward) {
      EXPECT_GE(e.start_s, compute_end - kNs) << to_string(i);
      compute_end = e.start_s + e.duration_s;
      for (const Buffer& b : i.reads)
        if (b.kind != BufferKind::output && loaded.contains(b)) {
          EXPECT_GE(e.start_s, loaded[b] - kNs) << to_string(i);
        }
    }
    if (i.op == Opcode::store && r.moved[k] > 0) { EXPECT_GE(e.start_s, compute_end - kNs) << to_string(i); }
  }
}

}  // namespace tern
