// The lowest held-out loss: kept as a model, and a reason to end; a resumed run knows it as one that was not stopped.
#include "train/best_evaluation.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "base/memory_io.h"
#include "base/source_dir_testing.h"
#include "formats/tokenizer/tokenizer.h"
#include "train/run_dir.h"
#include "train/trainer.h"

namespace tern {
namespace {

TEST(BestEvaluation, IsTheLowestAndTheFirstOfEquals) {
  BestEvaluation best;
  EXPECT_FALSE(best.take(5, NAN));
  EXPECT_EQ(best.step, -1);
  EXPECT_TRUE(best.take(10, 2.0));
  EXPECT_FALSE(best.take(20, 2.0));
  EXPECT_FALSE(best.take(30, 2.5));
  EXPECT_EQ(best.step, 10);
  EXPECT_EQ(best.since, 2);
  EXPECT_TRUE(best.take(40, 1.5));
  EXPECT_EQ(best.since, 0);
}

// A rate so high that the held-out loss rises again.
struct RisingRun {
  std::string folder = testing::TempDir() + "tern-best-XXXXXX";
  TrainSettings settings;
  RisingRun() {
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    ::setenv("XDG_CACHE_HOME", folder.c_str(), 1);
    TrainSettings& s = settings;
    s.tokenizer = source_dir() + "/tests/golden/tokenizers/byte_level";
    s.model = folder + "/config.json", s.data = folder + "/text.txt", s.valid_data = folder + "/other.txt";
    s.output = "run", s.from_scratch = true, s.multiply = Multiply::exact;
    s.seq = 8, s.batch = s.micro_batch = 2, s.eval_every = 1, s.eval_batches = 3, s.log_every = 1;
    s.schedule = {.kind = LearningRateKind::constant,
                  .peak = 3e-1,
                  .minimum = 3e-1,
                  .warmup_steps = 0,
                  .decay_steps = 0,
                  .total_steps = 12};
    s.checkpoint_every = 1, s.keep_checkpoints = 100, s.keep_best = true;
    std::string text, other;
    for (int i = 0; i < 60; ++i) text += "line " + std::to_string(i) + " of " + std::to_string(i * i % 7) + "\n";
    for (int i = 0; i < 30; ++i) other += "row " + std::to_string(i * 3 % 11) + "\n";
    write_file_atomically(real_io(), s.data, text);
    write_file_atomically(real_io(), s.valid_data, other);
    write_file_atomically(
        real_io(), s.model,
        R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 16, "intermediate_size": 24,
"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
"tie_word_embeddings": true, "hidden_act": "silu", "vocab_size": )" +
            std::to_string(Tokenizer::load(s.tokenizer).vocab_size()) + "}");
  }
  ~RisingRun() { remove_all(real_io(), folder); }
  RisingRun(const RisingRun&) = delete;
};

std::string model_of(Io& io, const std::string& directory) { return io.read(directory + "/model.safetensors"); }

TEST(KeepBest, HoldsTheModelOfTheLowestEvaluation) {
  RisingRun run;
  {
    TrainSettings s = run.settings;
    s.patience = 2;
    MemoryIo io;
    run.settings.schedule.total_steps = train(s, {}, io).last_step;
  }
  const int64_t steps = run.settings.schedule.total_steps;
  ASSERT_LT(steps, 12) << "the loss did not rise; the test needs another rate";
  MemoryIo io;
  const TrainResult r = train(run.settings, {}, io);
  EXPECT_EQ(r.end, TrainEnd::finished);
  ASSERT_TRUE(r.best);
  EXPECT_EQ(r.best_model, "run/best");
  EXPECT_GT(r.best->step, 0);
  EXPECT_EQ(r.best->step, steps - 2);
  EXPECT_EQ(r.best->since, 2);
  EXPECT_TRUE(model_of(io, "run/best") != model_of(io, "run/model"));
  // A run that ends there.
  TrainSettings until = run.settings;
  until.schedule.total_steps = r.best->step;
  MemoryIo other;
  train(until, {}, other);
  EXPECT_TRUE(model_of(io, "run/best") == model_of(other, "run/model"));
}

TEST(KeepBest, AStoppedRunKnowsItsBestAndItsPatience) {
  RisingRun run;
  run.settings.patience = 3;
  MemoryIo whole;
  const TrainResult want = train(run.settings, {}, whole);
  EXPECT_EQ(want.end, TrainEnd::stopped_early);
  ASSERT_TRUE(want.best);
  EXPECT_EQ(want.last_step, want.best->step + 3);
  EXPECT_LT(want.last_step, 12);
  for (int64_t at = 1; at <= want.last_step; ++at) {
    SCOPED_TRACE(at);
    MemoryIo io;
    std::atomic<bool> stop = false;
    train(run.settings, {.step = [&](const StepReport& s) { stop = s.step == at; }}, io, {.stop = stop});
    const TrainResult got = train(run.settings, {}, io);
    EXPECT_EQ(got.end, TrainEnd::stopped_early);
    EXPECT_EQ(got.last_step, want.last_step);
    ASSERT_TRUE(got.best);
    EXPECT_EQ(got.best->step, want.best->step);
    EXPECT_EQ(got.best->loss, want.best->loss);
    EXPECT_TRUE(model_of(io, "run/best") == model_of(whole, "run/best"));
    EXPECT_TRUE(model_of(io, "run/model") == model_of(whole, "run/model"));
  }
  // Once more: nothing is left to do.
  const TrainResult again = train(run.settings, {}, whole);
  EXPECT_EQ(again.end, TrainEnd::stopped_early);
  EXPECT_EQ(again.first_step, again.last_step);
}

TEST(KeepBest, AMissingModelOfTheBestIsTold) {
  RisingRun run;
  MemoryIo io;
  const TrainResult r = train(run.settings, {}, io);
  remove_all(io, "run/best");
  std::string notes;
  run.settings.schedule.total_steps = 13;
  const TrainResult more = train(run.settings, {.note = [&](const std::string& text) { notes += text + "\n"; }}, io);
  ASSERT_TRUE(more.best);
  if (more.best->step == r.best->step) { EXPECT_EQ(more.best_model, ""); }
  EXPECT_NE(notes.find("is not there; it waits for a lower one"), std::string::npos) << notes;
}

}  // namespace
}  // namespace tern
