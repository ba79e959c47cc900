// Times the scheduler alone: N sequences that decode one token in every step, without a model.
//
//   time_schedule [N] [SECONDS]      256 sequences for half a second; prints steps per second

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#if __has_include("formats/hf/config.h")
#include "formats/hf/config.h"
#else  // commits from before the folder
#include "formats/hf/config.h"
#endif
#include "infer/scheduler.h"
#include "spec/model_spec.h"

int main(int argc, char** argv) {
  using namespace tern;
  using Clock = std::chrono::steady_clock;
  const int64_t num = argc > 1 ? std::atoll(argv[1]) : 256;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.5;
  constexpr int64_t kPrompt = 16, kLongest = 512, kPage = 16;
  const ModelSpec spec = model_spec(parse_hf_config(
      R"({"model_type":"llama","vocab_size":64,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":1,
          "num_attention_heads":1,"max_position_embeddings":512,"rms_norm_eps":1e-5})",
      "the built-in model"));
  Arena arena;
  KvPool pool(kv_shape(spec, kPage, DType::f32), num * kLongest / kPage, arena);
  Scheduler scheduler(pool, {.token_budget = num * kPrompt, .chunk = kPrompt, .max_running = num});
  std::vector<std::unique_ptr<Sequence>> sequences;
  const auto join = [&] {
    auto& s = sequences.emplace_back(std::make_unique<Sequence>());
    s->id = sequences.size() - 1;
    s->tokens.assign(kPrompt, 1);
    s->prompt_tokens = kPrompt;
    scheduler.submit(*s, kLongest);
  };
  int64_t steps = 0;
  double spent = 0;
  while (spent < seconds) {
    for (const auto& s : sequences) scheduler.finish(*s);
    sequences.clear();
    for (int64_t i = 0; i < num; ++i) join();
    for (int64_t length = kPrompt; length < kLongest && spent < seconds; ++length) {
      const auto begin = Clock::now();
      const Batch batch = scheduler.step();
      scheduler.computed(batch);
      if (length > kPrompt) spent += std::chrono::duration<double>(Clock::now() - begin).count(), ++steps;
      for (const Work& work : batch) work.sequence->tokens.push_back(2);
    }
  }
  std::printf("%.1f\n", static_cast<double>(steps) / spent);
}
