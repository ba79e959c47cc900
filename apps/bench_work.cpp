// tern's own work on built-in models with random weights: what `train` and `generate` do, without their files.
#include <fmt/format.h>

#include <algorithm>

#include "apps/bench.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/units.h"
#include "exec/executor.h"
#include "formats/hf/config.h"
#include "infer/memory_fit.h"
#include "infer/run.h"
#include "model/allocate_weights.h"
#include "model/initial_weights.h"
#include "model/pack_weights.h"
#include "program/lower.h"
#include "spec/training_flops.h"
#include "train/fit.h"
#include "train/step_placement.h"
#include "update/state.h"

namespace tern {
namespace {

// 15.2M parameters, the training shape of the peers' table; and the shape of a 1.1B model, 8 of its 22 layers (a
// token's time is the same for each).
constexpr std::string_view kTrainedModel = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
  "vocab_size": 32000, "hidden_size": 288, "intermediate_size": 768, "num_hidden_layers": 6, "num_attention_heads": 6,
  "num_key_value_heads": 6, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "tie_word_embeddings": true,
  "hidden_act": "silu"})";
constexpr std::string_view kReadModel = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
  "vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 8, "num_attention_heads": 32,
  "num_key_value_heads": 4, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
  "hidden_act": "silu"})";
constexpr int64_t kSeq = 256, kBatch = 16, kPrompt = 512, kDecoded = 24;

std::vector<int32_t> random_tokens(int64_t count, int64_t vocab, uint64_t stream) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(static_cast<double>(vocab) * random_uniform({1, stream}, i));
  return tokens;
}

// --- a training step: 16 sequences of 256, AdamW, clipped ---

struct TrainedModel {
  ModelSpec spec;
  DType dtype;
  Arena state, work;
  ModelWeights weights, gradients;
  UpdateConfig config = update_config(UpdateRule::adamw);
  OptimizerState optimizer;
  RopeTable rope;
  std::optional<UpdatePass> update;
  Program program;
  std::vector<MicroBatch> batches;

  TrainedModel(ModelSpec s, DType type, const TrainSettings& settings) : spec(std::move(s)), dtype(type) {
    weights = allocate_weights(spec, dtype, MemoryClass::weights, state);
    initialize_weights(spec, weights, 1);
    gradients = allocate_gradients(spec, dtype, state);
    optimizer = make_optimizer_state(spec, weights, config, state);
    update.emplace(make_update_pass(spec, optimizer, config, weights, gradients));
    update->learning_rate = 1e-4;
    rope = rope_table(spec, kSeq, kSeq);
    program = lower(spec, step_placement(spec, settings, kBatch), 0);
    std::vector<int64_t> starts;
    for (int64_t i = 0; i <= kBatch; ++i) starts.push_back(i * kSeq);
    batches.emplace_back(random_tokens(kBatch * kSeq, spec.vocab, 2), starts,
                         random_tokens(kBatch * kSeq, spec.vocab, 3), &rope);
  }
  void run() {
    ++update->step;
    execute(program, {.spec = spec,
                      .weights = weights,
                      .gradients = &gradients,
                      .micro_batches = batches,
                      .loss_scale = 1.0 / static_cast<double>(kBatch * kSeq),
                      .compute = {work, Multiply::fast},
                      .update = &*update});
  }
};

// --- a prompt, and tokens after it ---

struct ReadModel {
  ModelSpec spec;
  Arena arena;
  ModelWeights weights;
  RopeTable rope;
  int64_t weight_bytes = 0;  // read for each token: all but the embedding table

  ReadModel(ModelSpec s, DType dtype) : spec(std::move(s)) {
    weights = allocate_weights(spec, dtype, MemoryClass::weights, arena);
    initialize_weights(spec, weights, 1);
    pack_weights(spec, weights, arena);
    rope = rope_table(spec, kPrompt + kDecoded, kPrompt + kDecoded);
    weight_bytes = (num_parameters(spec) - spec.vocab * spec.width) * size_of(dtype);
  }
  RunTimings read(int64_t prompt, int64_t tokens, DType dtype) {
    const InferenceNeeds needs{.context = prompt + tokens, .iteration_tokens = prompt};
    KvPool pool(kv_shape(spec, needs.page_tokens, dtype), kv_pages(needs), arena);
    Request request;
    request.prompt = random_tokens(prompt, spec.vocab, 4);
    request.max_tokens = tokens;
    Engine engine(pool, model_executor(spec, weights, &rope, arena), nullptr,
                  {.scheduler = {.token_budget = prompt + 1, .chunk = prompt}, .context = needs.context}, real_clock());
    RunTimings timings;
    run_request(engine, request, {}, {}, &timings);
    return timings;
  }
};

/// `left`: bytes that may still be taken; what a task takes goes off it.
void add_training(std::vector<BenchTask>& tasks, DType dtype, int64_t& left, std::vector<std::string>& notes) {
  const ModelSpec spec = model_spec(parse_hf_config(kTrainedModel, "the built-in model"));
  TrainSettings settings;
  settings.seq = kSeq;
  settings.batch = settings.micro_batch = kBatch;
  settings.dtype = dtype;
  const int64_t wanted = predict_memory(spec, settings, 0).total();
  const std::string name = fmt::format("train step {}", name_of(dtype));
  if (wanted > left) {
    notes.push_back(
        fmt::format("{} is left out: it takes {}, {} are left", name, format_bytes(wanted), format_bytes(left)));
    return;
  }
  left -= wanted;
  const auto model = std::make_shared<TrainedModel>(spec, dtype, settings);
  const double per_token = training_flops_per_token(spec, kSeq), tokens = kBatch * kSeq;
  // Memory traffic no schedule avoids: weights in three passes, gradients, the update's states.
  const double bytes = static_cast<double>(num_parameters(spec)) * (3.0 * static_cast<double>(size_of(dtype)) + 4 * 8);
  tasks.push_back({.name = name,
                   .unit = "FLOP/s",
                   .against = fmt::format("matrix units {}", name_of(dtype)),
                   .what = fmt::format("15.2M parameters, {} × {} tokens, AdamW", kBatch, kSeq),
                   .intensity = per_token * tokens / bytes,
                   .per_second = 1 / per_token,
                   .natural = "tokens/s",
                   .once = [model, per_token, tokens] {
                     Clock& clock = real_clock();
                     const int64_t begin = clock.now_ns();
                     model->run();
                     return per_token * tokens / seconds_between(begin, clock.now_ns());
                   }});
}

void add_reading(std::vector<BenchTask>& tasks, DType dtype, int64_t& left, std::vector<std::string>& notes) {
  const ModelSpec spec = model_spec(parse_hf_config(kReadModel, "the built-in model"));
  const int64_t wanted =
      inference_fit(spec, dtype, {.context = kPrompt + kDecoded, .iteration_tokens = kPrompt}).total();
  if (wanted > left) {
    notes.push_back(fmt::format("prompt and decode in {} are left out: they take {}, {} are left", name_of(dtype),
                                format_bytes(wanted), format_bytes(left)));
    return;
  }
  left -= wanted;
  const auto model = std::make_shared<ReadModel>(spec, dtype);
  // A forward pass is a third of a training step's FLOPs; the head runs for the last token alone.
  const double head = 2.0 * static_cast<double>(spec.vocab * spec.width);
  const double prompt_flops = (training_flops_per_token(spec, kPrompt) / 3 - head) * kPrompt + head;
  const auto weight_bytes = static_cast<double>(model->weight_bytes);
  const double token_flops = training_flops_per_token(spec, 1) / 3;
  tasks.push_back(
      {.name = fmt::format("prompt {}", name_of(dtype)),
       .unit = "FLOP/s",
       .against = fmt::format("matrix units {}", name_of(dtype)),
       .what = fmt::format("{} tokens, 8 layers of a 1.1B model", kPrompt),
       .intensity = prompt_flops / weight_bytes,
       .per_second = kPrompt / prompt_flops,
       .natural = "tokens/s",
       .once = [model, dtype, prompt_flops] { return prompt_flops / model->read(kPrompt, 1, dtype).prefill_s; }});
  if (const int64_t beyond = beyond_caches(); model->weight_bytes < beyond)
    notes.push_back(fmt::format(
        "decode {} reads {} of weights, the largest cache has {}: a part may come from it, and a share above 100 %",
        name_of(dtype), format_bytes(model->weight_bytes), format_bytes(beyond / 4)));
  tasks.push_back({.name = fmt::format("decode {}", name_of(dtype)),
                   .unit = "B/s",
                   .against = "memory read",
                   .what = fmt::format("one sequence, 8 layers of a 1.1B model; weights read per token: {}",
                                       format_bytes(model->weight_bytes)),
                   .intensity = token_flops / weight_bytes,
                   .per_second = 1 / weight_bytes,
                   .natural = "tokens/s",
                   .once = [model, dtype, weight_bytes] {
                     const RunTimings t = model->read(8, kDecoded, dtype);
                     return weight_bytes * static_cast<double>(t.generated_tokens - 1) / t.decode_s;
                   }});
}

constexpr int64_t kTinyLayers = 8;

}  // namespace

BenchTask engine_calls_task() {
  const std::string config = fmt::format(
      R"({{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 64, "hidden_size": 64,
         "intermediate_size": 64, "num_hidden_layers": {}, "num_attention_heads": 2, "num_key_value_heads": 2,
         "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "hidden_act": "silu"}})",
      kTinyLayers);
  const auto model = std::make_shared<ReadModel>(model_spec(parse_hf_config(config, "the tiny model")), DType::f32);
  return {.name = "engine calls", .unit = "calls/s", .once = [model] {
            const RunTimings t = model->read(8, kDecoded, DType::f32);
            return static_cast<double>((t.generated_tokens - 1) * (kTinyLayers + 1) * kCallsPerLayer) / t.decode_s;
          }};
}

std::vector<BenchTask> work_tasks(const BenchSettings& settings, std::vector<std::string>& notes) {
  std::vector<BenchTask> tasks;
  int64_t left = settings.memory_bytes * 5 / 8;  // all are held at once, beside the limits' buffer (a quarter at most)
  for (const DType dtype : {DType::bf16, DType::f32}) {
    add_training(tasks, dtype, left, notes);
    add_reading(tasks, dtype, left, notes);
  }
  return tasks;
}

}  // namespace tern
