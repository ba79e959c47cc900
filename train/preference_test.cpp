// DPO: fifty steps are TRL's (dev/golden/dpo.py), weights of answers are slopes of the loss, pairs stay together.
#include "train/preference.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/memory_io.h"
#include "base/source_dir_testing.h"
#include "formats/data/token_data_testing.h"
#include "formats/hf/config.h"
#include "formats/peft/config.h"
#include "model/adapter_files.h"
#include "model/initial_weights.h"
#include "model/model_testing.h"
#include "model/visit_weights.h"
#include "report/metrics_log.h"
#include "train/trainer.h"
#include "train/trainer_testing.h"

namespace tern {
namespace {

const std::string kDpoGolden = source_dir() + "/tests/golden/dpo/";
constexpr double kBeta = 0.1;

std::vector<MetricRow> rows_of_log(Io& io) { return parse_metrics(io.read("run/logs/metrics.jsonl"), "log").rows; }

TEST(PreferenceSlow, FiftyStepsAreThoseOfTrl) {
  const RunFolder folder;
  TrainSettings s;
  s.model = source_dir() + "/examples/novels-6m", s.data = kDpoGolden + "pairs.jsonl", s.output = "run";
  s.seq = 48, s.batch = 4, s.micro_batch = 1, s.shuffle = false;
  s.schedule = {.kind = LearningRateKind::constant,
                .peak = 1e-3,
                .minimum = 1e-4,
                .warmup_steps = 0,
                .decay_steps = 0,
                .total_steps = 50};
  s.optimizer = update_config(UpdateRule::adamw, {{"weight-decay", 0}, {"beta2", 0.999}});
  s.optimizer.clip = 1, s.log_every = 1, s.checkpoint_every = 0;
  s.adapter = AdapterSettings{.config = read_peft_config(kDpoGolden + "begin/adapter_config.json"),
                              .begin = kDpoGolden + "begin",
                              .preference = kBeta};
  MemoryIo io;
  const TrainResult result = train(s, {}, io);
  EXPECT_EQ(result.byte_mismatches, 0);
  EXPECT_LE(result.counted_peak_bytes, result.predicted.tensors());
  const auto want = read_json_file(kDpoGolden + "losses.json").get<std::vector<double>>();
  const std::vector<MetricRow> rows = rows_of_log(io);
  ASSERT_EQ(rows.size(), want.size());
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_NEAR(value_of(rows[i], "train/loss"), want[i], 0.01 * want[i]) << "step " << i + 1;
  EXPECT_EQ(value_of(rows[0], "train/preference_margin"), 0);
  EXPECT_EQ(value_of(rows[49], "train/preference_accuracy"), 1);
}

struct Pairs {
  ModelSpec spec =
      with_adapters(model_spec(read_hf_config(source_dir() + "/tests/golden/models/llama/config.json")), 3, 0.7);
  RopeTable rope = rope_table(spec, 16, 16);
  std::vector<MicroBatch> answers;
  Pairs() {
    for (uint64_t i = 0; i < 4; ++i) {
      std::vector<int32_t> tokens = random_tokens(11, spec.vocab, i), targets(tokens.begin() + 1, tokens.end());
      targets.push_back(-1);
      targets[0] = -1;
      answers.emplace_back(std::move(tokens), std::vector<int64_t>{0, 11}, std::move(targets), &rope);
    }
  }
};

// d loss / d ln p of an answer is minus its weight: moving the adapter along any direction changes the loss by what the
// weights foretell.
TEST(Preference, WeightsOfAnswersAreSlopesOfTheLoss) {
  Pairs c;
  Arena arena;
  ModelWeights weights = random_weights(c.spec, DType::f64, arena, 3, 0.2);
  const auto loss_at = [&](double along) {
    ModelWeights moved = weights;
    for_each_adapter(c.spec, moved, [&](const ParameterInfo& info, Tensor& t) {
      const Tensor to = arena.allocate(t.dtype(), t.shape(), MemoryClass::weights);
      for (int64_t i = 0; i < t.count(); ++i)
        set_element(to, i, element(t, i) + along * random_normal({5, hash_name(info.name)}, static_cast<uint64_t>(i)));
      t = to;
    });
    std::vector<MicroBatch> answers = Pairs().answers;
    for (MicroBatch& a : answers) a.rows.rope = &c.rope;
    const Preference p = weigh_pairs(c.spec, moved, kBeta, answers, {arena}, DType::f64);
    EXPECT_TRUE(p.mismatches.empty());
    return p.loss;
  };
  const Preference here = weigh_pairs(c.spec, weights, kBeta, c.answers, {arena}, DType::f64);
  EXPECT_GT(std::abs(here.margin), 1e-3);
  ModelWeights gradients = zero_gradients(c.spec, DType::f64, arena);
  for (const MicroBatch& a : c.answers) {
    ASSERT_TRUE(a.loss_scale);
    add_gradients(c.spec, weights, a.rows, a.targets, *a.loss_scale, gradients, {arena});
  }
  double foretold = 0;
  for_each_adapter(c.spec, gradients, [&](const ParameterInfo& info, Tensor& g) {
    for (int64_t i = 0; i < g.count(); ++i)
      foretold += element(g, i) * random_normal({5, hash_name(info.name)}, static_cast<uint64_t>(i));
  });
  const double h = 1e-5, slope = (loss_at(h) - loss_at(-h)) / (2 * h);
  EXPECT_GT(std::abs(slope), 1e-4);
  EXPECT_NEAR(foretold, slope, 1e-6 * std::abs(slope) + 1e-9);
}

// Without what it learned a model prefers nothing.
TEST(Preference, OfANewAdapterIsLogTwo) {
  Pairs c;
  Arena arena;
  ModelWeights weights = random_weights(c.spec, DType::f32, arena, 3);
  initialize_adapters(c.spec, weights, 1);
  const Preference p = weigh_pairs(c.spec, weights, kBeta, c.answers, {arena}, DType::f32);
  EXPECT_DOUBLE_EQ(p.loss, std::log(2));
  EXPECT_EQ(p.margin, 0);
  EXPECT_EQ(p.accuracy, 0);
  for (size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(*c.answers[i].loss_scale, (i % 2 ? -1 : 1) * kBeta / 4);
}

TEST(Preference, ShuffledPairsStayPairs) {
  const RunFolder folder;
  std::vector<uint16_t> tokens(7 * 2 * 5 + 1, 1);
  std::vector<int64_t> documents;
  for (int64_t d = 0; d <= 14; ++d) documents.push_back(d * 5);
  documents.push_back(71);
  write_token_file(folder.path + "/t", tokens, documents, 10, std::vector<uint8_t>(tokens.size(), 1));
  const Feed feed(TokenData::open(folder.path + "/t"), {.seq = 5, .seed = 3, .together = 2}, "test");
  std::set<int64_t> seen;
  bool moved = false;
  for (uint64_t s = 14; s < 28; s += 2) {
    const int64_t chosen = feed.window_of(s);
    EXPECT_EQ(chosen % 2, 0);
    EXPECT_EQ(feed.window_of(s + 1), chosen + 1);
    seen.insert(chosen);
    moved |= chosen != static_cast<int64_t>(s) - 14;
  }
  EXPECT_EQ(seen.size(), 7);
  EXPECT_TRUE(moved);
}

}  // namespace
}  // namespace tern
