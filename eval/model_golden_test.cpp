// Inference against transformers on the tiny golden models (generate.json of dev/golden/generate.py), and the laws of
// exact inference on a real model: batch, chunk, page, preemption and threads change no token.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/json.h"
#include "base/source_dir_testing.h"
#include "base/threads_testing.h"
#include "eval/perplexity.h"
#include "eval/window_losses.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "infer/run.h"
#include "model/model_files.h"

namespace tern {
namespace {

std::vector<std::string> golden_models() {
  std::vector<std::string> models;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/tests/golden/models"))
    if (std::filesystem::exists(entry.path() / "generate.json")) models.push_back(entry.path());
  std::sort(models.begin(), models.end());
  return models;
}

struct Loaded {
  Arena arena;
  ModelDescription model;
  ModelWeights weights;
  RopeTable rope;
  explicit Loaded(const std::string& path, DType dtype = DType::f32)
      : model(describe_model(path, dtype)), weights(load_for_inference(model, arena)) {
    if (model.spec.rope.kind != RopeKind::none)
      rope = rope_table(model.spec.rope, model.spec.context, model.spec.context);
  }
};

struct Setting {
  int64_t chunk = 128, page = 16, pages = 0, samples = 1;
  std::optional<KvType> kv = {};
};
std::vector<Sample> run(Loaded& l, const std::vector<int32_t>& prompt, int64_t num_tokens, const Setting& s,
                        double temperature = 0, uint64_t first_sequence = 0) {
  Request request;
  request.prompt = prompt;
  request.max_tokens = num_tokens;
  request.num_samples = s.samples;
  request.sampling.temperature = temperature;
  request.sampling.seed = 3;
  request.first_sequence = first_sequence;
  const InferenceNeeds needs{
      .context = l.model.spec.context, .sequences = s.samples, .page_tokens = s.page, .kv = s.kv};
  KvPool pool(kv_shape(l.model.spec, l.model.dtype, needs), s.pages ? s.pages : kv_pages(needs), l.arena);
  const EngineLimits limits{{.token_budget = s.chunk + s.samples, .chunk = s.chunk, .max_running = s.samples},
                            l.model.spec.context};
  Engine engine(pool, model_executor(l.model.spec, l.weights, l.rope.num_positions ? &l.rope : nullptr, l.arena),
                nullptr, limits, real_clock());
  return run_request(engine, request, {}, {}, nullptr);
}

TEST(ModelGolden, GreedyTokensEqualTransformers) {
  const auto models = golden_models();
  ASSERT_GE(models.size(), 3u) << "the golden models are not there";
  for (const std::string& path : models) {
    SCOPED_TRACE(path);
    Loaded l(path);
    const Json golden = read_json_file(path + "/generate.json");
    ASSERT_GE(golden["greedy"].size(), 3u);
    for (const Json& c : golden["greedy"]) {
      const auto want = c["tokens"].get<std::vector<int32_t>>();
      EXPECT_EQ(run(l, c["prompt"].get<std::vector<int32_t>>(), static_cast<int64_t>(want.size()), {})[0].token_ids,
                want);
    }
  }
}

TEST(ModelGolden, WindowLossesEqualTransformers) {
  for (const std::string& path : golden_models()) {
    SCOPED_TRACE(path);
    Loaded l(path);
    const Json golden = read_json_file(path + "/generate.json");
    const auto want = golden["losses"].get<std::vector<double>>();
    const Window window{golden["text"].get<std::vector<int32_t>>(), 1};
    double sum = 0;
    for (const double loss : want) sum += loss;
    EXPECT_NEAR(window_losses(l.model.spec, l.weights, {window}, 1, l.arena)[0], sum, 1e-5 * sum);
  }
}

TEST(ModelExactness, NothingAboutTheBatchChangesAToken) {
  for (const std::string& path : golden_models()) {
    SCOPED_TRACE(path);
    Loaded l(path);
    const Json golden = read_json_file(path + "/generate.json");
    const auto prompt = golden["greedy"][2]["prompt"].get<std::vector<int32_t>>();
    const int64_t n = std::min<int64_t>(40, l.model.spec.context - static_cast<int64_t>(prompt.size()));
    for (const double temperature : {0.0, 0.9}) {
      const auto plain = run(l, prompt, n, {}, temperature)[0].token_ids;
      ASSERT_EQ(static_cast<int64_t>(plain.size()), n);
      for (const int64_t chunk : {1, 3, 16})
        for (const int64_t page : {1, 5, 16, 64})
          EXPECT_EQ(run(l, prompt, n, {.chunk = chunk, .page = page}, temperature)[0].token_ids, plain);
      with_threads(1, [&] { EXPECT_EQ(run(l, prompt, n, {}, temperature)[0].token_ids, plain); });
    }
    const auto together = run(l, prompt, n, {.samples = 5}, 0.9);
    const auto tight =
        run(l, prompt, n,
            {.chunk = 4, .page = 4, .pages = (static_cast<int64_t>(prompt.size()) + n + 3) / 4 + 6, .samples = 5}, 0.9);
    int64_t preemptions = 0;
    for (uint64_t i = 0; i < 5; ++i) {
      EXPECT_EQ(run(l, prompt, n, {}, 0.9, i)[0].token_ids, together[i].token_ids) << "sample " << i;
      EXPECT_EQ(tight[i].token_ids, together[i].token_ids) << "sample " << i << " under preemption";
      preemptions += tight[i].num_preemptions;
    }
    EXPECT_GT(preemptions, 0);
  }
}

// The same of a cache that rounds, with the losses of windows.
TEST(ModelExactness, NothingAboutTheBatchChangesATokenOfARoundedCache) {
  for (const std::string& path : golden_models())
    for (const KvType kv : {KvType::bf16, KvType::q8, KvType::q4}) {
      SCOPED_TRACE(path + ", " + std::string(name_of(kv)));
      Loaded l(path);
      const Json golden = read_json_file(path + "/generate.json");
      const auto prompt = golden["greedy"][2]["prompt"].get<std::vector<int32_t>>();
      const int64_t n = std::min<int64_t>(24, l.model.spec.context - static_cast<int64_t>(prompt.size()));
      const auto together = run(l, prompt, n, {.samples = 3, .kv = kv}, 0.9);
      const int64_t pages = (static_cast<int64_t>(prompt.size()) + n + 3) / 4 + 4;
      const auto tight = run(l, prompt, n, {.chunk = 4, .page = 4, .pages = pages, .samples = 3, .kv = kv}, 0.9);
      int64_t preemptions = 0;
      for (uint64_t i = 0; i < 3; ++i) {
        const Setting alone{.chunk = 3, .page = 5, .kv = kv};
        EXPECT_EQ(run(l, prompt, n, alone, 0.9, i)[0].token_ids, together[i].token_ids) << "sample " << i;
        EXPECT_EQ(tight[i].token_ids, together[i].token_ids) << "sample " << i << " under preemption";
        preemptions += tight[i].num_preemptions;
      }
      EXPECT_GT(preemptions, 0);
      const auto windows = stride_windows(golden["text"].get<std::vector<int32_t>>(), 9, 5, -1);
      const auto losses = [&](int64_t batch, std::optional<KvType> as) {
        return window_losses_from(
            0, l.model.spec, l.weights, windows, {}, batch, l.arena, [](size_t, auto) { return true; }, as);
      };
      EXPECT_EQ(losses(3, kv), losses(1, kv));
      EXPECT_NE(losses(1, kv), losses(1, {}));
    }
}

// On one engine: requests come while others run, one leaves, the cache is too small for all.
TEST(ModelExactness, RequestsThatJoinAndLeaveChangeNoToken) {
  for (const std::string& path : golden_models()) {
    SCOPED_TRACE(path);
    Loaded l(path);
    const auto prompt = read_json_file(path + "/generate.json")["greedy"][2]["prompt"].get<std::vector<int32_t>>();
    const int64_t n = std::min<int64_t>(24, l.model.spec.context - static_cast<int64_t>(prompt.size()));
    const int64_t longest = static_cast<int64_t>(prompt.size()) + n;
    KvPool pool(kv_shape(l.model.spec, 4, l.model.dtype), (longest + 3) / 4 + 2, l.arena);
    Engine engine(pool, model_executor(l.model.spec, l.weights, l.rope.num_positions ? &l.rope : nullptr, l.arena),
                  nullptr, {{.token_budget = 9, .chunk = 5, .max_running = 4}, l.model.spec.context}, real_clock());
    std::vector<Request> requests;
    for (uint64_t i = 0; i < 5; ++i) {
      Request r;
      r.prompt.assign(prompt.begin(), prompt.end() - static_cast<ptrdiff_t>(i % prompt.size()));
      r.max_tokens = n, r.sampling.temperature = 0.9, r.sampling.seed = 3, r.first_sequence = i;
      requests.push_back(r);
    }
    size_t ended = 0;
    int64_t preemptions = 0;
    for (int step = 0; ended < requests.size(); ++step) {
      if (step % 6 == 0 && step / 6 < 5) engine.submit(requests[static_cast<size_t>(step / 6)]);
      if (step == 17) { EXPECT_TRUE(engine.cancel(1)); }
      for (const Event& event : engine.step()) {
        if (!event.finished) continue;
        ++ended;
        preemptions += event.finished->num_preemptions;
        const Request& r = requests[event.request];
        const auto want = run(l, r.prompt, n, {}, 0.9, event.request)[0].token_ids;
        const auto& got = event.finished->token_ids;
        ASSERT_LE(got.size(), want.size());
        EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin())) << "request " << event.request;
        EXPECT_EQ(got.size() == want.size(), event.finished->reason != FinishReason::cancelled);
      }
    }
    EXPECT_GT(preemptions, 0);
  }
}

TEST(ModelExactness, LossesDoNotDependOnBatchOrThreads) {
  for (const std::string& path : golden_models()) {
    SCOPED_TRACE(path);
    Loaded l(path);
    const auto text = read_json_file(path + "/generate.json")["text"].get<std::vector<int32_t>>();
    const auto windows = stride_windows(text, 9, 5, -1);
    ASSERT_GE(windows.size(), 4u);
    const auto plain = window_losses(l.model.spec, l.weights, windows, 1, l.arena);
    for (const int64_t batch : {2, 3, 100})
      EXPECT_EQ(window_losses(l.model.spec, l.weights, windows, batch, l.arena), plain);
    with_threads(1, [&] { EXPECT_EQ(window_losses(l.model.spec, l.weights, windows, 3, l.arena), plain); });
  }
}

TEST(ModelExactness, AUniformModelScoresTheVocabulary) {
  const auto models = golden_models();
  ASSERT_FALSE(models.empty());
  ModelDescription model = describe_model(models[0], DType::f32);
  Arena arena;
  ModelWeights weights = load_weights(model.spec, model.dir.path, DType::f32, arena);
  dense_rows(head_of(weights).projection).fill_zero();
  std::vector<int32_t> text(200);
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<int32_t>(i * 7 % static_cast<size_t>(model.spec.vocab));
  for (const Convention convention : {Convention::gptq, Convention::llamacpp, Convention::stride}) {
    const auto windows = convention == Convention::gptq       ? gptq_windows(text, 20)
                         : convention == Convention::llamacpp ? llamacpp_windows(text, 20, 1)
                                                              : stride_windows(text, 20, 19, 1);
    PerplexityReport report;
    report.convention = name_of(convention);
    derive_figures(report, windows, window_losses(model.spec, weights, windows, 4, arena));
    EXPECT_NEAR(report.perplexity, static_cast<double>(model.spec.vocab), 1e-3 * static_cast<double>(model.spec.vocab))
        << report.convention;
  }
}

TEST(InferenceFit, PredictsWhatIsCounted) {
  for (const std::string& path : golden_models()) {
    SCOPED_TRACE(path);
    Arena arena;
    const ModelDescription model = describe_model(path, DType::f32);
    const ModelWeights weights = load_for_inference(model, arena);
    const InferenceFit fit = inference_fit(model.spec, DType::f32,
                                           {.context = 64, .sequences = 2, .page_tokens = 16, .iteration_tokens = 8});
    EXPECT_EQ(arena.current_total(), fit.weights);
    EXPECT_LE(arena.peak_total(), fit.loading_peak);
    const KvPool pool(kv_shape(model.spec, 16, DType::f32), 8, arena);
    EXPECT_EQ(arena.current_total(), fit.weights + fit.kv_cache);
    for (const KvType kv : {KvType::bf16, KvType::q8, KvType::q4}) {
      const InferenceNeeds needs{.context = 64, .sequences = 2, .page_tokens = 16, .iteration_tokens = 8, .kv = kv};
      const int64_t before = arena.current_total();
      const KvPool narrow(kv_shape(model.spec, DType::f32, needs), 8, arena);
      EXPECT_EQ(arena.current_total() - before, inference_fit(model.spec, DType::f32, needs).kv_cache);
    }
  }
}

// A whole request: one sequence as planned to the byte; of several the plan covers what runs, and is no multiple of it.
TEST(InferenceFit, CoversARunningRequestAndNotMuchMore) {
  for (const std::string& path : golden_models())
    for (const Setting s : {Setting{.chunk = 8, .samples = 1}, Setting{.chunk = 32, .samples = 3}}) {
      SCOPED_TRACE(path);
      Loaded l(path);
      const int64_t length = std::min<int64_t>(40, l.model.spec.context - 8);
      const std::vector<int32_t> prompt(static_cast<size_t>(length), 5);
      const InferenceFit fit = inference_fit(l.model.spec, l.model.dtype,
                                             {.context = l.model.spec.context,
                                              .sequences = s.samples,
                                              .page_tokens = s.page,
                                              .iteration_tokens = iteration_tokens(length, s.chunk, s.samples),
                                              .logit_rows = s.samples});
      const PeakScope scope(l.arena);
      run(l, prompt, 6, s, 0.9);
      const int64_t peak = scope.peak().total;
      EXPECT_LE(peak, fit.tensors());
      if (s.samples == 1) { EXPECT_EQ(peak, fit.weights + fit.kv_cache + fit.running()); }
      EXPECT_GE(4 * (peak - fit.weights - fit.kv_cache), fit.running());
      EXPECT_GT(peak, fit.weights + fit.kv_cache);
    }
}

}  // namespace
}  // namespace tern
