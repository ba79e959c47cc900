#include "infer/stream_plan.h"

#include "formats/format_test_support.h"
#include "infer/executor.h"
#include "infer/run.h"
#include "model/model_testing.h"
#include "store/blocks_testing.h"

namespace tern {
namespace {

constexpr BandSizes kSmall{.most = 4000, .least = 1};
constexpr RingSettings kRing{.slots = 3, .threads = 2};

struct Saved {
  explicit Saved(const char* family) {
    HfConfig config = tiny_config(family);
    config.hidden_size = 96, config.intermediate_size = 160, config.vocab_size = 400;
    const ModelSpec spec = model_spec(config);
    Arena arena;
    save_model(spec, config, random_weights(spec, DType::f32, arena, 3), DType::bf16, dir / "model", real_io());
    model = describe_model(dir / "model", DType::bf16);
  }
  TemporaryDirectory dir;
  ModelDescription model;
};

struct Ran {
  std::vector<int32_t> tokens;
  int64_t peak = 0, read = 0, passes = 0;
};

// A prompt of 19 tokens in chunks, then 6 tokens; whole weights or streamed ones.
Ran run(const ModelDescription& model, const InferenceNeeds& needs, const StreamPlan* plan) {
  Arena arena;
  ModelWeights whole;
  StreamedModel streamed;
  if (plan)
    streamed = load_streamed(model.spec, model.dir.path, model.dtype, plan->bands, plan->stays,
                             open_blocks(plan->bands.paths).files, plan->ring, arena);
  else
    whole = load_for_inference(model, arena);
  const RopeTable rope = rope_table(model.spec, needs.context, needs.context);
  KvPool pool(kv_shape(model.spec, needs.page_tokens, model.dtype), kv_pages(needs), arena);
  EngineLimits limits{.context = needs.context};
  limits.scheduler.chunk = limits.scheduler.token_budget = needs.iteration_tokens;
  Engine engine(pool, model_executor(model.spec, plan ? streamed.weights : whole, &rope, arena), nullptr, limits,
                real_clock());
  Request request;
  request.prompt = random_tokens(19, model.spec.vocab, 5);
  request.max_tokens = 6;
  RunTimings timings;
  const std::vector<Sample> samples = run_request(engine, request, {}, {}, &timings);
  Ran ran{samples.front().token_ids, arena.peak_total(), 0, timings.iterations};
  if (streamed.ring) ran.read = streamed.ring->counts().used_bytes;
  return ran;
}

InferenceNeeds needs_of(int64_t chunk) {
  return {.context = 25, .sequences = 1, .page_tokens = 4, .iteration_tokens = chunk, .logit_rows = 1};
}

TEST(StreamPlan, AnyLimitFromTheLeastOnIsKeptWithTheSameTokens) {
  for (const char* family : {"llama", "gemma3_text"}) {
    const Saved saved(family);
    for (const int64_t chunk : {7, 19}) {
      const InferenceNeeds needs = needs_of(chunk);
      const Ran want = run(saved.model, needs, nullptr);
      ASSERT_EQ(want.tokens.size(), 6u);
      const int64_t most = inference_fit(saved.model.spec, saved.model.dtype, needs).total();
      int64_t least = 0, before = INT64_MAX;
      for (int64_t budget = most / 4; budget < most * 2; budget += most / 8) {
        StreamPlan plan;
        try {
          plan = plan_stream(saved.model, needs, {budget, "the test"}, kRing, kSmall);
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::does_not_fit);
          EXPECT_EQ(least, 0) << "what fits a smaller limit fits a larger one";
          continue;
        }
        if (least == 0) least = budget;
        SCOPED_TRACE(fmt::format("{}, chunks of {}, {} bytes", family, chunk, budget));
        EXPECT_LE(plan.fit.total(), budget);
        EXPECT_LE(plan.streamed_bytes, before) << "more memory never streams more";
        before = plan.streamed_bytes;
        const Ran got = run(saved.model, needs, &plan);
        EXPECT_EQ(got.tokens, want.tokens);
        EXPECT_LE(got.peak, plan.fit.tensors());
        EXPECT_GE(got.peak, plan.fit.tensors() * 8 / 10) << "a forecast, not a guess";
        if (chunk == 19) { EXPECT_EQ(got.read, got.passes * plan.streamed_bytes); }
      }
      EXPECT_GT(least, 0);
      EXPECT_LT(least, most);
      EXPECT_EQ(before, 0) << "at the end everything stays";
    }
  }
}

TEST(StreamPlan, ARefusalNamesTheLeastThatWouldDo) {
  const Saved saved("llama");
  try {
    plan_stream(saved.model, needs_of(19), {1000, "the test", 77}, kRing, kSmall);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::does_not_fit);
    EXPECT_NE(std::string(error.what()).find("what would fit:\n  --memory "), std::string::npos) << error.what();
  }
}

// The same bytes, priced: what the slower of disk and products needs, and never less.
TEST(StreamPlan, TimesAreTheBoundOrMore) {
  const Saved saved("llama");
  const InferenceNeeds needs = needs_of(19);
  const int64_t most = inference_fit(saved.model.spec, saved.model.dtype, needs).total();
  const StreamPlan plan = plan_stream(saved.model, needs, {most, "the test"}, kRing, kSmall);
  ASSERT_GT(plan.streamed_bytes, 0);
  for (const double disk : {1e8, 1e9, 1e11}) {
    const StreamRates rates{.disk = disk, .kept = 2e9, .coded = 1e9};
    const StreamTimes times = stream_times(plan, rates);
    EXPECT_GE(times.disk_s * disk, static_cast<double>(plan.streamed_bytes));
    EXPECT_NEAR(times.products_s,
                static_cast<double>(plan.streamed_bytes) / 1e9 +
                    static_cast<double>(plan.pass_bytes - plan.streamed_bytes) / 2e9,
                1e-9);
    EXPECT_GE(times.pass_s, times.bound_s() * 0.999999);
    EXPECT_LE(times.pass_s, times.disk_s + times.products_s);
    EXPECT_EQ(times.binds(), times.disk_s > times.products_s ? "the disk" : "products");
  }
}

}  // namespace
}  // namespace tern
