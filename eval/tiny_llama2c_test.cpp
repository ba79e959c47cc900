// A real trained model of 260K parameters, through GGUF: its perplexity is the reference framework's, its text is
// fluent, and evaluation does not depend on how it is cut into batches.
#include "eval/tiny_llama2c_testing.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/source_dir_testing.h"
#include "eval/compare_models.h"
#include "eval/perplexity.h"
#include "eval/task_run.h"
#include "eval/window_losses.h"
#include "formats/format_test_support.h"
#include "infer/load.h"

namespace tern {
namespace {

struct Tiny {
  TemporaryDirectory dir;
  ModelDescription model;
  Arena arena;
  ModelWeights weights;
};

// Null without TERN_DATA.
std::unique_ptr<Tiny> tiny(DType dtype = DType::f32) {
  const char* data = std::getenv("TERN_DATA");
  if (!data) return nullptr;
  auto t = std::make_unique<Tiny>();
  write_tiny_llama2c(std::string(data) + "/tiny-llama2c", t->dir / "tiny.gguf");
  t->model = describe_model(t->dir / "tiny.gguf", dtype);
  t->weights = load_for_inference(t->model, t->arena);
  return t;
}

TEST(TinyLlama, PerplexityIsTheReferenceFrameworks) {
  const auto t = tiny();
  if (!t) GTEST_SKIP() << "TERN_DATA is not set";
  const Json golden = read_json_file(source_dir() + "/tests/golden/eval/tiny_llama2c.json");
  const std::string text = read_bytes(std::string(std::getenv("TERN_DATA")) + "/text/frankenstein.txt")
                               .substr(0, golden["text_bytes"].get<size_t>());
  const std::vector<int32_t> ids = t->model.tokenizer->encode(text, {.add_special = false});
  EXPECT_EQ(ids.size(), golden["tokens"].get<size_t>());
  for (const auto& [stride, key] : {std::pair{127, "disjoint"}, {64, "overlapping"}}) {
    const auto windows = stride_windows(ids, 128, stride, 1);
    PerplexityReport report;
    derive_figures(report, windows, window_losses(t->model.spec, t->weights, windows, 8, t->arena));
    EXPECT_NEAR(report.perplexity / golden[key]["perplexity"].get<double>(), 1, 1e-4) << key;
    EXPECT_EQ(report.num_scored, golden[key]["scored"].get<int64_t>()) << key;
  }
}

// A model that tern trained and exported (dev/golden/trained.py): what transformers measures with it.
TEST(TrainedModel, PerplexityIsTheReferenceFrameworks) {
  const std::string dir = source_dir() + "/tests/golden/eval/trained";
  const Json golden = read_json_file(dir + "/expected.json");
  const ModelDescription model = describe_model(dir, DType::f32);
  Arena arena;
  const ModelWeights weights = load_for_inference(model, arena);
  const std::vector<int32_t> ids = model.tokenizer->encode(read_bytes(dir + "/text.txt"), {.add_special = false});
  EXPECT_EQ(ids.size(), golden["tokens"].get<size_t>());
  const auto context = golden["context"].get<int64_t>();
  for (const int64_t stride : {context - 1, context / 2}) {
    const Json& want = golden[std::to_string(stride)];
    const auto windows = stride_windows(ids, context, stride, -1);
    PerplexityReport report;
    derive_figures(report, windows, window_losses(model.spec, weights, windows, 8, arena));
    EXPECT_NEAR(report.perplexity / want["perplexity"].get<double>(), 1, 1e-4) << stride;
    EXPECT_EQ(report.num_scored, want["scored"].get<int64_t>()) << stride;
    EXPECT_LT(report.perplexity, 100) << "it has learned something of 320 tokens";
  }
}

TEST(TinyLlama, ADistanceFromItselfIsNothingAndOfARoundedCopyLittle) {
  const auto t = tiny(), rounded = tiny(DType::bf16);
  if (!t) GTEST_SKIP() << "TERN_DATA is not set";
  const auto ids = t->model.tokenizer->encode(
      "Once upon a time, there was a little girl named Lily. She loved to play.", {.add_special = false});
  const auto windows = stride_windows(ids, 16, 8, 1);
  const auto report = [&](const Tiny& other, int64_t batch, size_t first) {
    std::vector<WindowDifference> all;
    Arena arena;
    compare_windows({t->model.spec, t->weights}, {other.model.spec, other.weights}, windows, {}, batch, arena, first,
                    [&](size_t, const std::vector<WindowDifference>& part) {
                      all.insert(all.end(), part.begin(), part.end());
                      return true;
                    });
    return summarize(all);
  };
  const CompareReport same = report(*t, 3, 0), near = report(*rounded, 3, 0);
  EXPECT_EQ(same.mean_kl, 0);
  EXPECT_EQ(same.same_top, 1);
  EXPECT_EQ(same.perplexity, same.reference_perplexity);
  EXPECT_EQ(same.tokens, static_cast<int64_t>(ids.size()));
  EXPECT_GT(near.mean_kl, 0);
  EXPECT_LT(near.mean_kl, 1e-3);
  EXPECT_EQ(near.mean_kl, report(*rounded, 1, 0).mean_kl);  // batches change nothing
  const auto losses = window_losses(t->model.spec, t->weights, windows, 4, t->arena);
  double sum = 0;
  for (const double loss : losses) sum += loss;
  EXPECT_NEAR(same.perplexity, std::exp(sum / static_cast<double>(same.tokens)), 1e-6 * same.perplexity);
}

TEST(TinyLlama, ChoicesAreScoredAloneAsInBatchesAndSenseWins) {
  const auto t = tiny();
  if (!t) GTEST_SKIP() << "TERN_DATA is not set";
  const Task task = parse_task(
      R"({"prompt": "Dimensions unfold, as I softly", "choices": [" refine", " xylophone", " qz"], "answer": 0})"
      "\n"
      R"({"prompt": "a tapestry of ", "choices": ["the", "zxq jv"], "answer": 0})",
      "t");
  const auto windows = choice_windows(*t->model.tokenizer, task.items, 128, 1, 1, "t");
  ASSERT_EQ(windows.size(), 5u);
  const auto losses = ragged_losses(t->model.spec, t->weights, windows, 5, t->arena);
  for (size_t i = 0; i < windows.size(); ++i)
    EXPECT_EQ(ragged_losses(t->model.spec, t->weights, {windows[i]}, 1, t->arena)[0], losses[i]);
  for (const auto& scores : choice_scores(task.items, windows, losses)) EXPECT_EQ(pick_choices(scores).sum, 0);
}

TEST(EncodePair, BlanksAtThePromptsEndGoToTheAnswer) {
  const auto t = tiny();
  if (!t) GTEST_SKIP() << "TERN_DATA is not set";
  const Tokenizer& tokenizer = *t->model.tokenizer;
  const auto a = encode_pair(tokenizer, "The dog ", "ran", 1, 1, "t"),
             b = encode_pair(tokenizer, "The dog", " ran", 1, 1, "t");
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.first_scored, b.first_scored);
  EXPECT_EQ(a.tokens[0], 1);
  EXPECT_EQ(encode_pair(tokenizer, "", "ran", -1, 2, "t").first_scored, 1);
  EXPECT_TRUE(throws(ErrorKind::usage, "the prompt is empty", [&] { encode_pair(tokenizer, "", "x", -1, -1, "t"); }));
  EXPECT_TRUE(throws(ErrorKind::usage, "tokens, the model reads 4", [&] {
    const Task long_one = parse_task(R"({"prompt": "a b c d e f", "choices": ["x", "y"], "answer": 0})", "t");
    choice_windows(tokenizer, long_one.items, 4, 1, 1, "t");
  }));
}

}  // namespace
}  // namespace tern
