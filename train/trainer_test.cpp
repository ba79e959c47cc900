// The loop: its steps are the reference framework's, its rates and clipping those that are logged; a run stopped at any
// operation of the disk, or by its clock, ends with the same bits.
#include "train/trainer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/fault_io.h"
#include "base/memory_io.h"
#include "base/source_dir_testing.h"
#include "formats/data/token_data_testing.h"
#include "formats/hf/config.h"
#include "formats/safetensors/safetensors.h"
#include "report/metrics_log.h"
#include "train/checkpoint.h"
#include "train/trainer_testing.h"

namespace tern {
namespace {

const std::string kTrainGolden = source_dir() + "/tests/golden/";

std::string tiny_config(int64_t vocab) {
  return fmt::format(
      R"({{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": {}, "hidden_size": 16,
 "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
 "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "hidden_act": "silu"}})",
      vocab);
}

// Text, so that the run packs it; a model drawn from scratch; all that is written goes to `run` of the Io.
struct TextRun {
  RunFolder folder;
  TrainSettings settings;
  TextRun() {
    settings.tokenizer = kTrainGolden + "tokenizers/byte_level";
    settings.model = folder.path + "/config.json";
    settings.data = folder.path + "/text.txt";
    settings.output = "run";
    settings.from_scratch = true;
    settings.seq = 8, settings.batch = settings.micro_batch = 2;
    settings.schedule = {.kind = LearningRateKind::cosine,
                         .peak = 1e-2,
                         .minimum = 1e-3,
                         .warmup_steps = 2,
                         .decay_steps = 0,
                         .total_steps = 4};
    settings.multiply = Multiply::exact;
    settings.checkpoint_every = 2, settings.keep_checkpoints = 1, settings.log_every = 1;
    std::string text;
    for (int i = 0; i < 60; ++i) text += fmt::format("line {} of {}\n", i, i * i % 7);
    write_file_atomically(real_io(), settings.data, text);
    const int64_t vocab = Tokenizer::load(settings.tokenizer).vocab_size();
    write_file_atomically(real_io(), settings.model, tiny_config(vocab));
  }
};

std::vector<MetricRow> logged(Io& io) {
  std::vector<MetricRow> rows;
  const std::string text = io.read("run/logs/metrics.jsonl");
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    rows.push_back(parse_metric_line(std::string_view(text).substr(begin, end - begin), "log"));
  return rows;
}

// What a run leaves, but for times and speeds.
std::string left_by(Io& io, int64_t steps) {
  std::string all = io.read("run/model/model.safetensors") + io.read("run/model/tern_export.json") +
                    io.read(fmt::format("run/checkpoints/step-{}/{}", steps, rank_file(0)));
  for (const MetricRow& row : logged(io))
    all += fmt::format("{} {} {} {}\n", row.step, value_of(row, "train/loss"), value_of(row, "train/lr"),
                       value_of(row, "train/grad_norm"));
  return all;
}

std::vector<double> doubles(const TensorView& view) {
  std::vector<double> values(static_cast<size_t>(view.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    float narrow = 0;
    if (view.dtype == DType::f64)
      std::memcpy(&values[i], view.bytes.data() + 8 * i, 8);
    else
      std::memcpy(&narrow, view.bytes.data() + 4 * i, 4), values[i] = static_cast<double>(narrow);
  }
  return values;
}

double norm_of_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return a.empty() || a.size() != b.size() ? NAN : std::sqrt(sum);
}

// --- the reference framework's ten steps, by the loop ----------------------------------------------------------------

class TrainGolden : public testing::TestWithParam<const char*> {};

TEST_P(TrainGolden, TenStepsOfTheLoopAreTheReferenceFrameworks) {
  const std::string dir = kTrainGolden + "models/" + GetParam();
  const Safetensors golden(dir + "/golden.safetensors");
  const TensorView ids = golden.get("tokens");
  const int64_t sequences = ids.shape[0], seq = ids.shape[1];
  std::vector<int32_t> tokens(static_cast<size_t>(sequences * seq));
  std::memcpy(tokens.data(), ids.bytes.data(), ids.bytes.size());
  // Each sequence is a document, so its last token predicts nothing; one more token ends the last window.
  std::vector<uint16_t> data(tokens.begin(), tokens.end());
  data.push_back(0);
  std::vector<int64_t> documents;
  for (int64_t d = 0; d <= sequences; ++d) documents.push_back(d * seq);
  documents.push_back(sequences * seq + 1);

  const RunFolder folder;
  write_token_file(folder.path + "/data.tokens", data, documents, read_hf_config(dir + "/config.json").vocab_size);
  TrainSettings s;
  s.model = dir, s.data = folder.path + "/data.tokens", s.output = "run";
  s.seq = seq, s.batch = sequences, s.micro_batch = 1, s.shuffle = false;
  s.schedule = {.kind = LearningRateKind::constant,
                .peak = 3e-3,
                .minimum = 3e-4,
                .warmup_steps = 0,
                .decay_steps = 0,
                .total_steps = 10};
  s.optimizer.clip = 0, s.log_every = 1, s.checkpoint_every = 0;
  MemoryIo io;
  train(s, {}, io);

  const std::vector<double> losses = doubles(golden.get("step_losses"));
  const std::vector<MetricRow> rows = logged(io);
  ASSERT_EQ(rows.size(), 10u);
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_NEAR(value_of(rows[i], "train/loss"), losses[i], 1e-4 * losses[i]) << "step " << i + 1;
  double squares = 0;
  const std::string bytes = io.read("run/model/model.safetensors");
  const Safetensors model = Safetensors::over(std::as_bytes(std::span(bytes)), "model");
  for (size_t i = 0; i < model.size(); ++i) {
    const std::string name(model[i].name);
    const std::vector<double> want = doubles(golden.get("final." + name)), got = doubles(model[i]),
                              gradient = doubles(golden.get("grad." + name));
    for (const double g : gradient) squares += g * g;
    if (name.ends_with("attn.c_attn.bias")) continue;  // its keys' gradient is noise (model/golden_test.cpp)
    EXPECT_LE(norm_of_difference(got, want), 1e-4 * norm_of_difference(want, std::vector<double>(want.size()))) << name;
  }
  EXPECT_NEAR(value_of(rows[0], "train/grad_norm"), std::sqrt(squares), 1e-4 * std::sqrt(squares));
}

INSTANTIATE_TEST_SUITE_P(Models, TrainGolden, testing::Values("llama", "mistral", "gpt2"),
                         [](const auto& one) { return std::string(one.param); });

// SGD without decay moves the weights by rate × clip coefficient × norm of the gradient, each of them as logged.
TEST(Train, EachStepMovesTheWeightsByItsRateTimesTheClippedNorm) {
  TextRun run;
  TrainSettings& s = run.settings;
  s.dtype = DType::f64;
  s.optimizer = update_config(UpdateRule::sgd, {{"weight-decay", 0}, {"momentum", 0}});
  s.optimizer.clip = 0.5;
  s.checkpoint_every = 1, s.keep_checkpoints = 100, s.schedule.total_steps = 5;
  MemoryIo io;
  {
    TrainSettings first = s;
    first.max_seconds = 0.0;  // saves step 0
    train(first, {}, io);
  }
  train(s, {}, io);
  const auto weights = [&](int64_t step) {
    std::vector<double> all;
    const CheckpointData data(io, "run/checkpoints/" + checkpoint_name(step), 0);
    for (size_t i = 0; i < data.tensors().size(); ++i)
      for (const double x : doubles(data.tensors()[i])) all.push_back(x);
    return all;
  };
  const std::vector<MetricRow> rows = logged(io);
  ASSERT_EQ(rows.size(), 5u);
  int clipped = 0;
  for (const MetricRow& row : rows) {
    const double rate = learning_rate(s.schedule, row.step), norm = value_of(row, "train/grad_norm");
    EXPECT_EQ(value_of(row, "train/lr"), rate) << row.step;
    const double want = rate * norm * std::min(1.0, s.optimizer.clip / (norm + 1e-6));
    clipped += norm > s.optimizer.clip;
    EXPECT_NEAR(norm_of_difference(weights(row.step), weights(row.step - 1)), want, 1e-9 * want) << row.step;
  }
  EXPECT_GT(clipped, 0) << "the clipping was not asked for";
}

// Stopped and resumed, with a rule whose state is small: the weights, losses and norms of a run that keeps its gradients, and the bytes that
// were predicted.
TEST(Train, UpdatesInTheBackwardGiveTheSameRunInLessMemory) {
  for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::galore_sgd})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(std::string(name_of(rule)) + " " + std::string(name_of(dtype)));
      TextRun run;
      TrainSettings& s = run.settings;
      s.dtype = dtype, s.optimizer = update_config(rule), s.optimizer.clip = 0;
      std::string want;
      int64_t gradients = 0, whole = 0;
      for (const bool early : {false, true}) {
        s.update_in_backward = early;
        MemoryIo io;
        if (early) {
          TrainSettings first = s;
          first.max_seconds = 0.0;
          train(first, {}, io);
        }
        const TrainResult r = train(s, {}, io);
        EXPECT_EQ(r.byte_mismatches, 0);
        EXPECT_LE(r.counted_peak_bytes, r.predicted.tensors());
        if (!early) {
          want = left_by(io, 4), gradients = r.predicted.gradients, whole = r.counted_peak_bytes;
          continue;
        }
        EXPECT_EQ(left_by(io, 4), want);
        EXPECT_LT(r.predicted.gradients, gradients);
        EXPECT_LT(r.counted_peak_bytes, whole);
      }
    }
}

// --- stopped and started
// ----------------------------------------------------------------------------------------------

TEST(Train, MaxSecondsGoesByTheClockItIsGiven) {
  TextRun run;
  run.settings.max_seconds = 35;
  run.settings.schedule.total_steps = 100;
  MemoryIo io;
  VirtualClock clock;
  const TrainResult r =
      train(run.settings, {.step = [&](const StepReport&) { clock.advance_ns(10'000'000'000); }}, io, {.clock = clock});
  EXPECT_EQ(r.end, TrainEnd::interrupted);
  EXPECT_EQ(r.last_step, 4);
  EXPECT_DOUBLE_EQ(r.seconds, 40);
  EXPECT_DOUBLE_EQ(r.tokens_per_s, 4 * 16 / 40.0) << "the tokens of those seconds";
  const std::vector<MetricRow> rows = logged(io);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[3].time_s - rows[0].time_s, 30);
  EXPECT_EQ(rows[0].time_s, 1'700'000'010);
}

// A second passes whenever it is asked.
class AskedClock : public VirtualClock {
 public:
  int64_t now_ns() const override { return 1'000'000'000 * ++asked_; }

 private:
  mutable std::atomic<int64_t> asked_ = 0;
};

TEST(Train, EvaluationIsToldApartFromTheStepsAndTheirRate) {
  const auto run_once = [](bool evaluates) {
    TextRun run;
    if (evaluates) run.settings.valid_data = run.settings.data;
    run.settings.eval_every = evaluates ? 2 : 0, run.settings.eval_batches = 3;
    MemoryIo io;
    AskedClock clock;
    return train(run.settings, {}, io, {.clock = clock});
  };
  const TrainResult alone = run_once(false), r = run_once(true);
  ASSERT_TRUE(r.evaluation);
  EXPECT_DOUBLE_EQ(alone.evaluation_seconds, 0);
  EXPECT_DOUBLE_EQ(r.evaluation_seconds, 2) << "after steps 2 and 4, asked at the beginning and at the end of each";
  EXPECT_DOUBLE_EQ(r.seconds, alone.seconds + 2) << "what passes until each begins is the steps'";
  EXPECT_DOUBLE_EQ(r.tokens_per_s * r.seconds, 4 * 16);
}

TEST(Train, WhatStepsWaitForCheckpointsIsTold) {
  const auto run_once = [](int64_t every) {
    TextRun run;
    run.settings.checkpoint_every = every;
    MemoryIo io;
    AskedClock clock;
    return train(run.settings, {}, io, {.clock = clock});
  };
  const TrainResult none = run_once(0), r = run_once(1);
  EXPECT_EQ(none.checkpoints, 0);
  EXPECT_DOUBLE_EQ(none.checkpoint_seconds, 0);
  EXPECT_EQ(r.checkpoints, r.last_step - 1) << "the last one is no step's loss";
  EXPECT_DOUBLE_EQ(r.checkpoint_seconds, static_cast<double>(r.checkpoints)) << "asked before and after each";
}

TEST(Train, AStopDuringTheLastEvaluationLeavesItAtItsNextBatchAndSavesAllSteps) {
  TextRun run;
  run.settings.valid_data = run.settings.data;
  run.settings.eval_every = 0, run.settings.eval_batches = 3;
  MemoryIo io;
  std::string notes;
  std::atomic<bool> stop = false;
  const TrainResult r = train(run.settings,
                              {.note = [&](const std::string& text) { notes += text + "\n"; },
                               .step =
                                   [&](const StepReport& s) {
                                     if (s.step == 4) stop = true;
                                   }},
                              io, {.stop = stop});
  EXPECT_EQ(r.end, TrainEnd::interrupted);
  EXPECT_EQ(r.last_step, 4);
  EXPECT_FALSE(r.evaluation);
  EXPECT_EQ(r.checkpoint, "run/checkpoints/step-4");
  EXPECT_NE(notes.find("stopping: the evaluation of step 4"), std::string::npos) << notes;
  const std::vector<MetricRow> rows = logged(io);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_TRUE(std::isnan(value_of(rows[3], "eval/held-out/loss")));
  // The same command makes good for it, in the row where it belongs; nobody disturbed the other run.
  EXPECT_EQ(train(run.settings, {}, io).end, TrainEnd::finished);
  MemoryIo quiet;
  train(run.settings, {}, quiet);
  const std::vector<MetricRow> mended = logged(io), want = logged(quiet);
  ASSERT_EQ(mended.size(), 4u);
  EXPECT_EQ(value_of(mended[3], "eval/held-out/loss"), value_of(want[3], "eval/held-out/loss"));
  EXPECT_EQ(value_of(mended[3], "train/loss"), value_of(want[3], "train/loss"));
  EXPECT_EQ(mended[3].values.size(), want[3].values.size());
}

// A kill between the commit of a checkpoint and the export of its model leaves the model of an earlier step.
TEST(Train, AModelOfAnEarlierStepIsWrittenAgainByARunThatWasComplete) {
  TextRun run;
  MemoryIo io;
  run.settings.schedule.total_steps = 2;
  train(run.settings, {}, io);
  const std::string old_model = io.read("run/model/model.safetensors"),
                    old_record = io.read("run/model/tern_export.json");
  run.settings.schedule.total_steps = 4;
  train(run.settings, {}, io);
  const std::string want = left_by(io, 4);
  ASSERT_TRUE(io.read("run/model/model.safetensors") != old_model);

  io.create("run/model/model.safetensors")->append(old_model);
  io.create("run/model/tern_export.json")->append(old_record);
  std::string notes;
  EXPECT_EQ(train(run.settings, {.note = [&](const std::string& text) { notes += text + "\n"; }}, io).end,
            TrainEnd::finished);
  EXPECT_TRUE(left_by(io, 4) == want);
  EXPECT_NE(notes.find("was of step 2: written again from run/checkpoints/step-4"), std::string::npos) << notes;

  // The same by the way of a put-back: killed while the old one was under its temporary name.
  io.create("run/model/model.safetensors")->append(old_model);
  io.create("run/model/tern_export.json")->append(old_record);
  io.rename("run/model", "run/model.old-77");
  train(run.settings, {}, io);
  EXPECT_TRUE(left_by(io, 4) == want);

  // One of this step that is not whole is written again; one that is whole stays.
  std::string damaged = io.read("run/model/model.safetensors");
  damaged[damaged.size() / 2] ^= 1;
  io.create("run/model/model.safetensors")->append(damaged);
  notes.clear();
  train(run.settings, {.note = [&](const std::string& text) { notes += text + "\n"; }}, io);
  EXPECT_TRUE(left_by(io, 4) == want);
  EXPECT_NE(notes.find("not whole, as tern_export.json says"), std::string::npos) << notes;
  io.remove("run/model/config.json");
  train(run.settings, {}, io);
  EXPECT_TRUE(io.stat("run/model/config.json"));
  const std::string added = "run/model/generation_config.json";
  io.create(added)->append(std::string_view("{}"));
  train(run.settings, {}, io);
  EXPECT_TRUE(io.stat(added));
}

// Packing, checkpoints, logs, export: whatever was on the disk when the power went, the same command ends with the same
// bits, and its log has each row once.
TEST(TrainPowerLossSlow, AtEveryOperationOfAWholeRunTheSameCommandEndsWithTheSameBits) {
  constexpr uint64_t kSeed = 20261122;
  fmt::print("seed {}\n", kSeed);
  TextRun run;
  MemoryIo plain;
  FaultIo counter(plain);
  train(run.settings, {}, counter);
  const std::string want = left_by(plain, 4);
  const int64_t operations = counter.num_operations();
  ASSERT_GE(operations, 100);
  int resumed = 0;
  for (int64_t at = 0; at < operations; ++at) {
    MemoryIo disk;
    FaultIo faulty(disk, {.at = at, .kind = FaultKind::kill_before});
    bool killed = false;
    try {
      train(run.settings, {}, faulty);
    } catch (const SimulatedKill&) { killed = true; }
    // The last operation removes the writer's lock, in a destructor, which throws nothing.
    EXPECT_TRUE(killed || at + 1 == operations) << at;
    const auto after = disk.state_after_crash(kSeed + static_cast<uint64_t>(at));
    try {
      const TrainResult again = train(run.settings, {}, *after);
      resumed += again.first_step > 0;
      ASSERT_TRUE(left_by(*after, 4) == want) << "power lost before operation " << at << " of " << operations;
    } catch (const Error& e) {
      FAIL() << "power lost before operation " << at << " of " << operations << ": " << e.what();
    }
  }
  EXPECT_GT(resumed, 10);
  fmt::print("{} operations, {} of them resumed\n", operations, resumed);
}

// --- the trace
// --------------------------------------------------------------------------------------------------------

TEST(Train, ATraceThatCannotBeWrittenIsToldAndTheRunGoesOn) {
  struct NoTrace : FaultIo {
    using FaultIo::FaultIo;
    std::unique_ptr<IoFile> create_locked(const std::string& path) override {
      if (path.starts_with("run.trace")) throw_io_error("create", path, EACCES);
      return FaultIo::create_locked(path);
    }
  };
  TextRun run;
  std::string notes;
  const TrainHooks hooks{.note = [&](const std::string& text) { notes += text + "\n"; }};
  MemoryIo disk;
  run.settings.trace = "no-such-folder/run.trace";
  try {
    train(run.settings, hooks, disk);
    FAIL() << "it began";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(e.what()).find("there is no folder no-such-folder"), std::string::npos) << e.what();
  }
  EXPECT_FALSE(disk.stat("run")) << "nothing is written before";

  run.settings.trace = "run.trace";
  NoTrace io(disk);
  EXPECT_EQ(train(run.settings, hooks, io).last_step, 4);
  EXPECT_NE(notes.find("--trace run.trace: not written: cannot create"), std::string::npos) << notes;
  notes.clear();
  train(run.settings, hooks, disk);
  EXPECT_NE(notes.find("--trace run.trace: not written, as no step ran"), std::string::npos) << notes;
  EXPECT_FALSE(disk.stat("run.trace"));
}

// What is called before NORM takes its time there.
TEST(Train, ATraceShowsWhatACallBeforeTheNormTakes) {
  TextRun run;
  run.settings.trace = "run.trace";
  MemoryIo disk;
  const auto pause = [](const StepGradients&) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  ASSERT_EQ(train(run.settings, {.gradients = pause}, disk).last_step, 4);
  const auto document = nlohmann::json::parse(disk.read("run.trace"));
  double last_backward = 0;
  std::map<std::string, double> begins;  // of the measured instructions after the pause
  for (const auto& e : document.at("traceEvents")) {
    if (e.at("ph") != "X" || e.at("pid") != 1) continue;
    const std::string name = e.at("name");
    if (name.starts_with("BACKWARD")) last_backward = std::max(last_backward, e.at("ts").get<double>());
    if (name.starts_with("NORM") || name.starts_with("UPDATE")) begins[name] = e.at("ts").get<double>();
  }
  EXPECT_GT(last_backward, 0);
  EXPECT_GT(begins.size(), 2u);
  for (const auto& [name, begin] : begins) EXPECT_GE(begin, last_backward + 1000) << name << ", in microseconds";
}

}  // namespace
}  // namespace tern
