#include "infer/stream_plan.h"
#include "model/load_streamed.h"

#include "base/pages.h"
#include "formats/format_test_support.h"
#include "infer/embedding.h"
#include "infer/embedding_fit.h"
#include "infer/executor.h"
#include "infer/run.h"
#include "infer/step_testing.h"
#include "infer/stream_times.h"
#include "model/coded_model_testing.h"
#include "model/model_testing.h"
#include "spec/unit_cost.h"
#include "store/blocks_testing.h"

namespace tern {
namespace {

constexpr BandSizes kSmall{.most = 4000, .least = 1};
constexpr RingSettings kRing{.slots = 3, .threads = 2};

struct Saved {
  // Many layers: weights, not what threads keep, are most of what a model takes under every instruction set.
  explicit Saved(const char* family, bool mixture = false) {
    HfConfig config = tiny_config(family);
    config.hidden_size = 96, config.intermediate_size = 160, config.vocab_size = 400;
    config.num_hidden_layers = std::max<int64_t>(config.num_hidden_layers, mixture ? 12 : 6);
    for (size_t i = 0;
         !config.windowed_layers.empty() && std::ssize(config.windowed_layers) < config.num_hidden_layers;)
      config.windowed_layers.push_back(config.windowed_layers[i++]);
    if (mixture) config.num_experts = 16;  // so many that they are most of the model
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
  CacheCounts experts;
};

// Whole weights, or those of a plan.
struct Loaded {
  Loaded(const ModelDescription& model, const StreamPlan* plan, ReadWay way = ReadWay::direct,
         WeightsIn in = WeightsIn::mapped_file)
      : streams(plan) {
    if (plan)
      streamed = load_streamed(model.spec, model.dir.path, model.dtype, plan->bands, plan->stays,
                               open_blocks(plan->bands.paths, way).files, plan->ring, arena, plan->cache);
    else
      whole = load_for_inference(model, arena, in);
  }
  const ModelWeights& weights() const { return streams ? streamed.weights : whole; }
  Arena arena;
  ModelWeights whole;
  StreamedModel streamed;
  bool streams;
};

// A prompt of 19 tokens in chunks, then 6 tokens; whole weights or streamed ones.
Ran run(const ModelDescription& model, const InferenceNeeds& needs, const StreamPlan* plan,
        ReadWay way = ReadWay::direct) {
  Loaded loaded(model, plan, way, needs.in_integers ? WeightsIn::coded_int8 : WeightsIn::mapped_file);
  Arena& arena = loaded.arena;
  const RopeTable rope = rope_table(model.spec, needs.context, needs.context);
  KvPool pool(kv_shape(model.spec, needs.page_tokens, model.dtype), kv_pages(needs), arena);
  EngineLimits limits{.context = needs.context};
  limits.scheduler.chunk = limits.scheduler.token_budget = needs.iteration_tokens;
  Engine engine(pool, model_executor(model.spec, loaded.weights(), &rope, arena), nullptr, limits, real_clock());
  Request request;
  request.prompt = random_tokens(19, model.spec.vocab, 5);
  request.max_tokens = 6;
  RunTimings timings;
  const std::vector<Sample> samples = run_request(engine, request, {}, {}, &timings);
  Ran ran{samples.front().token_ids, arena.peak_total(), 0, timings.iterations, {}};
  if (loaded.streamed.cache) ran.experts = loaded.streamed.cache->counts();
  if (loaded.streamed.ring) ran.read = loaded.streamed.ring->counts().used_bytes;
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

// A mixture: from the least limit on the same tokens, within what was foretold; the more memory, the more experts have a place and
// the fewer bytes are read.
TEST(StreamPlan, AMixtureReadsWhatItsTokensChoose) {
  for (const char* family : {"mixtral", "qwen3_moe"}) {
    const Saved saved(family, true);
    for (const int64_t chunk : {7, 19}) {
      const InferenceNeeds needs = needs_of(chunk);
      const Ran want = run(saved.model, needs, nullptr);
      const int64_t most = inference_fit(saved.model.spec, saved.model.dtype, needs).total();
      int64_t least = 0, slots = 0, missed = INT64_MAX;
      for (int64_t budget = most / 4; budget < most * 2; budget += most / 12) {
        StreamPlan plan;
        try {
          plan = plan_stream(saved.model, needs, {budget, "the test"}, kRing, kSmall);
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::does_not_fit);
          EXPECT_EQ(least, 0);
          continue;
        }
        if (least == 0) least = budget;
        SCOPED_TRACE(fmt::format("{}, chunks of {}, {} bytes, {} of {} experts", family, chunk, budget,
                                 plan.experts.slots, plan.experts.count));
        ASSERT_GT(plan.experts.count, 0);
        EXPECT_LE(plan.fit.total(), budget);
        EXPECT_GE(plan.experts.slots, slots);
        slots = plan.experts.slots;
        const Ran got = run(saved.model, needs, &plan, budget % 2 ? ReadWay::buffered : ReadWay::direct);
        EXPECT_EQ(got.tokens, want.tokens);
        EXPECT_LE(got.peak, plan.fit.tensors());
        EXPECT_GE(got.peak, plan.fit.tensors() * 8 / 10);
        // A token chooses so many bytes; a chunk no more than all experts once.
        EXPECT_LE(got.experts.wanted_bytes,
                  5 * plan.experts.chosen_bytes + (19 + chunk - 1) / chunk * plan.experts.bytes);
        EXPECT_GE(got.experts.wanted_bytes, 5 * plan.experts.chosen_bytes);
        EXPECT_LE(got.experts.missed_bytes, got.experts.wanted_bytes);
        if (slots == plan.experts.count) { EXPECT_LE(got.experts.missed_bytes, plan.experts.bytes); }
        missed = got.experts.missed_bytes;
      }
      EXPECT_GT(least, 0);
      EXPECT_LT(least, most * 3 / 4);
      EXPECT_GT(slots, 2);
      EXPECT_LT(missed, INT64_MAX);
    }
  }
}

// Priced: at hit rate h a token reads what streams and (1 - h) of what it chooses; reading begins at the router.
TEST(StreamPlan, TheTimeOfAMixtureFollowsItsHits) {
  const Saved saved("mixtral", true);
  const InferenceNeeds needs = needs_of(19);
  const int64_t most = inference_fit(saved.model.spec, saved.model.dtype, needs).total();
  const StreamPlan plan = plan_stream(saved.model, needs, {most * 3 / 4, "the test"}, kRing, kSmall);
  const StreamRates rates{.disk = 1e9, .kept = 2e9, .coded = 1e9};
  const auto chosen = static_cast<double>(plan.experts.chosen_bytes);
  double before = 1e9;
  for (const double hits : {0.0, 0.3, 0.9, 1.0}) {
    EXPECT_NEAR(expected_bytes(plan, 1, hits), static_cast<double>(plan.streamed_bytes) + (1 - hits) * chosen, 1);
    const StreamTimes times = stream_times(plan, rates, hits);
    EXPECT_GE(times.disk_s * 1e9, expected_bytes(plan, 1, hits) - 100);
    EXPECT_GE(times.pass_s, times.bound_s() * 0.999999);
    EXPECT_LT(times.pass_s, before);
    before = times.pass_s;
    const StreamTimes reads = stream_times(plan, {.disk = 1e9, .kept = 1e18, .coded = 1e18}, hits);
    EXPECT_NEAR(reads.pass_s, reads.disk_s, 1e-6 * before);  // only reading takes time: one matrix behind the other
    const StreamTimes products = stream_times(plan, {.disk = 1e18, .kept = 2e9, .coded = 1e9}, hits);
    EXPECT_NEAR(products.pass_s, products.products_s, 1e-6 * before);
  }
  EXPECT_LT(expected_bytes(plan, 8, 0.0), static_cast<double>(plan.streamed_bytes) + 8 * chosen);
}

// Codes as they lie in the file, over limits, rings, threads and readers.
TEST(StreamPlan, ACodedFileSaysTheSame) {
  const TemporaryDirectory dir;
  const std::string path = dir / "m.gguf";
  write_coded_model(coded_config("llama", false), {WeightType::q4_0, WeightType::q6_k, WeightType::bf16}, path);
  for (const auto& [dtype, in_integers] :
       {std::pair{DType::f32, false}, {DType::bf16, false}, {DType::f32, true}, {DType::bf16, true}}) {
    const ModelDescription model = describe_model(path, dtype);
    InferenceNeeds needs = needs_of(19);
    needs.in_integers = in_integers;
    const Ran want = run(model, needs, nullptr);
    const int64_t most = inference_fit(model.spec, dtype, needs).total();
    int streamed = 0;
    for (const RingSettings& ring : {RingSettings{1, 1}, {2, 3}, {5, 2}})
      for (int64_t budget = most / 8; budget < most; budget += most / 6) {
        SCOPED_TRACE(fmt::format("{}{}, {} bytes, {} slots, {} threads", name_of(dtype),
                                 in_integers ? " in integers" : "", budget, ring.slots, ring.threads));
        StreamPlan plan;
        try {
          plan = plan_stream(model, needs, {budget, "the test"}, ring, kSmall);
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::does_not_fit);
          continue;
        }
        ++streamed;
        const Ran got = run(model, needs, &plan, streamed % 2 ? ReadWay::direct : ReadWay::buffered);
        EXPECT_EQ(got.tokens, want.tokens);
        EXPECT_LE(got.peak, plan.fit.tensors());
        EXPECT_EQ(got.read, got.passes * plan.streamed_bytes);
      }
    EXPECT_GT(streamed, 3);
  }
}

// The losses of one batch of two tiles and a half: the head's matrix is read for each.
TEST(StreamPlan, LossesAreThoseOfWholeWeights) {
  for (const char* family : {"llama", "gemma3_text"}) {
    const Saved saved(family);
    const ModelSpec& spec = saved.model.spec;
    constexpr int64_t kRows = kHeadTile * 5 / 2;
    const InferenceNeeds needs{.context = kRows, .sequences = 0, .iteration_tokens = kRows, .logit_rows = 0};
    const std::vector<int32_t> tokens = random_tokens(kRows, spec.vocab, 5),
                               targets = random_tokens(kRows, spec.vocab, 6);
    const RopeTable rope = rope_table(spec, kRows, kRows);
    const auto losses_of = [&](Loaded& loaded) {
      const Compute compute{loaded.arena, Multiply::exact};
      const Tensor x = model_forward(spec, loaded.weights(), make_rows(tokens, {0, kRows}, &rope), nullptr, compute);
      return head_losses(spec, loaded.weights(), x, targets, compute);
    };
    Loaded whole(saved.model, nullptr);
    const std::vector<double> want = losses_of(whole);
    const int64_t most = inference_fit(spec, saved.model.dtype, needs).total();
    int streamed = 0;
    for (int64_t budget = most / 2; budget < most * 2; budget += most / 16) {
      StreamPlan plan;
      try {
        plan = plan_stream(saved.model, needs, {budget, "the test"}, kRing, kSmall);
      } catch (const Error&) { continue; }
      streamed += plan.streamed_bytes > 0;
      SCOPED_TRACE(fmt::format("{}, {} bytes", family, budget));
      Loaded loaded(saved.model, &plan);
      EXPECT_EQ(losses_of(loaded), want);
      EXPECT_LE(loaded.arena.peak_total(), plan.fit.tensors());
      const auto head = plan.stays.end() - static_cast<ptrdiff_t>(plan.bands.matrices.back().bands.size());
      const bool others_stay = std::find(plan.stays.begin(), head, true) != head;
      EXPECT_TRUE(!others_stay || std::find(head, plan.stays.end(), true) != plan.stays.end())
          << "the head stays before others";
    }
    EXPECT_GT(streamed, 2);
  }
}

// Vectors need no head: its matrix is neither kept nor read.
TEST(StreamPlan, VectorsAreThoseOfWholeWeightsAndReadNoHead) {
  const Saved saved("llama");
  const ModelSpec& spec = saved.model.spec;
  std::vector<std::vector<int32_t>> texts;
  for (uint64_t i = 0; i < 5; ++i) texts.push_back(random_tokens(3 + static_cast<int64_t>(i), spec.vocab, i));
  const EmbeddingSettings settings{.pooling = Pooling::mean, .normalize = true, .batch = 2};
  const EmbeddingNeeds needs = embedding_needs(spec, saved.model.dtype, texts, settings);
  const auto vectors_of = [&](Loaded& loaded) {
    std::vector<float> all;
    embed_texts(spec, loaded.weights(), nullptr, texts, settings, loaded.arena,
                [&](int64_t, std::span<const float> part) {
                  all.insert(all.end(), part.begin(), part.end());
                  return true;
                });
    return all;
  };
  Loaded whole(saved.model, nullptr);
  const std::vector<float> want = vectors_of(whole);
  const int64_t most = inference_fit(spec, saved.model.dtype, needs.model).total();
  int streamed = 0;
  for (int64_t budget = most / 4; budget < most; budget += most / 8) {
    StreamPlan plan;
    try {
      plan = plan_stream(saved.model, needs.model, {budget, "the test"}, kRing, kSmall);
    } catch (const Error&) { continue; }
    SCOPED_TRACE(fmt::format("{} bytes", budget));
    EXPECT_FALSE(plan.bands.unused.empty());
    for (const FileMatrix& m : plan.bands.matrices) EXPECT_FALSE(m.head) << m.name;
    Loaded loaded(saved.model, &plan);
    EXPECT_EQ(vectors_of(loaded), want);
    EXPECT_LE(loaded.arena.peak_total(), plan.fit.tensors());
    if (!loaded.streamed.ring) continue;
    ++streamed;
    EXPECT_EQ(loaded.streamed.ring->counts().used_bytes, 3 * plan.streamed_bytes);
    EXPECT_EQ(loaded.streamed.ring->counts().skipped, 0);
  }
  EXPECT_GT(streamed, 1);
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

// No weights stay; the ring holds the window, and the rest is what inference takes anyway: to the byte.
TEST(StreamPlan, AWindowTakesItsBlocksAndIsOnlyChecked) {
  for (const char* family : {"llama", "gemma3_text"}) {
    const Saved saved(family);
    InferenceNeeds needs = needs_of(19);
    const Ran want = run(saved.model, needs, nullptr);
    for (const StreamWindow& window : some_stream_windows()) {
      needs.window = window;
      SCOPED_TRACE(fmt::format("{}, {}", family, describe(window)));
      const StreamPlan plan = plan_stream(saved.model, needs, {int64_t{1} << 40, "the test"}, kRing, kSmall);
      EXPECT_EQ(plan.kept_bytes, 0);
      EXPECT_EQ(plan.streamed_bytes, plan.pass_bytes);
      EXPECT_EQ(std::ranges::count(plan.stays, true), 0);
      // W blocks, each in slots of one size.
      const int largest = *std::ranges::max_element(plan.ring.window.blocks);
      EXPECT_LE(plan.ring.slots, window.resident * largest);
      int64_t longest = 0;
      for (const FileMatrix& m : plan.bands.matrices)
        for (const FileBand& band : m.bands) longest = std::max(longest, band.extent.bytes);
      EXPECT_GE(plan.fit.ring, plan.ring.slots * longest);
      const auto whole_pages = static_cast<int64_t>(kHugePage);  // to which the ring's memory may be rounded
      EXPECT_LE(plan.fit.ring, plan.ring.slots * (longest + 2 * kStreamAlignment) + kStreamAlignment + whole_pages);
      EXPECT_GE(plan.fit.ring, window_bytes(plan.bands, plan.ring.window));
      Loaded loaded(saved.model, &plan);
      if (loaded.streamed.files->alignment() == kStreamAlignment) {
        EXPECT_EQ(loaded.arena.current()[static_cast<size_t>(MemoryClass::staging)], plan.fit.ring);
      }
      EXPECT_EQ(loaded.arena.current()[static_cast<size_t>(MemoryClass::weights)], plan.fit.weights);
      EXPECT_EQ(loaded.streamed.filled_bytes, 0);
      const Ran got = run(saved.model, needs, &plan);
      EXPECT_EQ(got.tokens, want.tokens);
      EXPECT_EQ(got.read, got.passes * plan.streamed_bytes);
      EXPECT_LE(got.peak, plan.fit.tensors());
      EXPECT_GE(got.peak, plan.fit.tensors() * 8 / 10);
      // What it takes is the least that is allowed, and is named by the refusal of less.
      const int64_t least = plan.fit.total();
      EXPECT_EQ(plan_stream(saved.model, needs, {least, "the test"}, kRing, kSmall).fit.total(), least);
      try {
        plan_stream(saved.model, needs, {least - 1, "the test", 77}, kRing, kSmall);
        ADD_FAILURE() << "a byte less is refused";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::does_not_fit);
        EXPECT_NE(std::string(error.what()).find("what would fit:\n  --memory "), std::string::npos) << error.what();
      }
    }
  }
}

TEST(StreamPlan, RefusesWindowsThatAreNone) {
  const auto refusal = [](const ModelDescription& model, const StreamWindow& window) -> std::string {
    InferenceNeeds needs = needs_of(19);
    needs.window = window;
    try {
      plan_stream(model, needs, {int64_t{1} << 40, "the test"}, kRing, kSmall);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.what();
    }
    return "";
  };
  const Saved saved("llama");
  EXPECT_EQ(refusal(saved.model, {WindowOf::block, 13}), "");  // six layers of two, and the head
  EXPECT_NE(refusal(saved.model, {WindowOf::block, 14}).find("this model has 13"), std::string::npos);
  EXPECT_EQ(refusal(saved.model, {WindowOf::layer, 7, 7}), "");
  EXPECT_NE(refusal(saved.model, {WindowOf::layer, 8, 2}).find("this model has 7"), std::string::npos);
  EXPECT_NE(refusal(Saved("mixtral").model, {WindowOf::block, 2}).find("a mixture of experts"), std::string::npos);
}

// The same bytes, priced: what the slower of disk and products needs, and never less.
TEST(StreamPlan, TimesAreTheBoundOrMore) {
  const Saved saved("llama");
  const InferenceNeeds needs = needs_of(19);
  const int64_t most = inference_fit(saved.model.spec, saved.model.dtype, needs).total();
  const StreamPlan plan = plan_stream(saved.model, needs, {most, "the test"}, kRing, kSmall);
  ASSERT_GT(plan.streamed_bytes, 0);
  double packed = 0;  // bytes in the file of bands that stay packed
  size_t at = 0;
  for (const FileMatrix& m : plan.bands.matrices)
    for (const FileBand& band : m.bands)
      if (plan.stays[at++] && stays_packed(band, m.in, plan.dtype)) packed += static_cast<double>(band.extent.bytes);
  ASSERT_GT(packed, 0);
  for (const double disk : {1e8, 1e9, 1e11}) {
    const StreamRates rates{.disk = disk, .kept = 2e9, .coded = 1e9};
    const StreamTimes times = stream_times(plan, rates);
    EXPECT_GE(times.disk_s * disk, static_cast<double>(plan.streamed_bytes));
    EXPECT_NEAR(times.products_s, (static_cast<double>(plan.pass_bytes) - packed) / 1e9 + packed / 2e9, 1e-9);
    EXPECT_GE(times.pass_s, times.bound_s() * 0.999999);
    EXPECT_LE(times.pass_s, times.disk_s + times.products_s);
    EXPECT_EQ(times.binds(), times.disk_s > times.products_s ? "the disk" : "products");
  }
}

}  // namespace
}  // namespace tern
