// Several adapters beside one model: a request says what it says alone with its own, whoever shares its batch.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>

#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/source_dir_testing.h"
#include "infer/engine.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "infer/run.h"
#include "model/adapter_files.h"
#include "model/model_testing.h"
#include "model/pack_weights.h"

namespace tern {
namespace {

constexpr uint64_t kAdapterSeed = 24;
constexpr int64_t kAdapterContext = 60;

// Of unlike ranks, scales and modules.
std::vector<PeftConfig> configs_of(const ModelSpec& base) {
  const std::string some = adapted_places(base).front().path, part = some.substr(some.rfind('.') + 1);
  PeftConfig one{.targets = {.names = {part}}, .rank = 3, .alpha = 5};
  PeftConfig all{.targets = {.all_linear = true}, .rank = 8, .alpha = 6, .rank_stabilized = true};
  PeftConfig last{
      .targets = {.all_linear = true}, .excluded = {.names = {part}}, .layers = {{1}}, .rank = 1, .alpha = 2};
  return {one, all, last};
}

// One model four times: as it is, and with one adapter each; and once with all three beside it.
struct Models {
  ModelSpec base;
  std::vector<ModelSpec> adapted;
  Arena arena;
  std::vector<ModelWeights> alone;  // the base's first
  ModelWeights beside;
  RopeTable rope;
  const RopeTable* turns() const { return base.rope.kind == RopeKind::none ? nullptr : &rope; }

  Models(const ModelSpec& spec, DType dtype) : base(spec), rope(rope_table(spec, kAdapterContext, kAdapterContext)) {
    alone.push_back(random_weights(base, dtype, arena, kAdapterSeed));
    pack_weights(base, alone.back(), arena);
    beside = alone.front();
    for (const PeftConfig& config : configs_of(base)) {
      const auto number = static_cast<int>(adapted.size());
      const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
      const std::string dir = testing::TempDir() + test + std::to_string(number);
      adapted.push_back(with_adapters(base, config, "the test"));
      alone.push_back(random_weights(adapted.back(), dtype, arena, kAdapterSeed));
      save_adapters(adapted.back(), config, alone.back(), dir, real_io());
      pack_weights(adapted.back(), alone.back(), arena);
      load_adapter_beside(adapted.back(), "", dir, dtype, number, beside, arena);
    }
  }
};

Request adapter_request(uint64_t number, int64_t vocab) {
  Request r;
  std::mt19937 random(static_cast<uint32_t>(number));
  r.adapter = static_cast<int>(random() % 4) - 1;
  const size_t common = random() % 14, own = 1 + random() % 8;  // many begin alike, whatever their adapter
  for (size_t i = 0; i < common; ++i) r.prompt.push_back(static_cast<int32_t>(i));
  for (size_t i = 0; i < own; ++i) r.prompt.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)));
  r.sampling.temperature = random() % 3 ? 1.0 : 0.0;
  r.sampling.seed = number;
  r.num_samples = random() % 5 == 0 ? 2 : 1;
  r.max_tokens = 1 + static_cast<int64_t>(random() % 20);
  return r;
}

using AdapterOutput = std::vector<std::pair<std::vector<int32_t>, double>>;  // of each sample
AdapterOutput said(const std::vector<Sample>& samples) {
  AdapterOutput all;
  for (const Sample& s : samples) all.emplace_back(s.token_ids, s.sum_log_probability);
  return all;
}

// As `generate --adapter` has it.
AdapterOutput alone(Models& m, DType dtype, Request request) {
  const auto which = static_cast<size_t>(request.adapter + 1);
  request.adapter = kNoAdapter;
  const ModelSpec& spec = which == 0 ? m.base : m.adapted[which - 1];
  KvPool pool(kv_shape(spec, 16, dtype), 20, m.arena);
  VirtualClock clock;
  Engine engine(pool, model_executor(spec, m.alone[which], m.turns(), m.arena), nullptr,
                {{.token_budget = 64, .chunk = 64}, kAdapterContext}, clock);
  return said(run_request(engine, request, {}, {}, nullptr));
}

TEST(AdaptersBeside, ARequestSaysWhatItSaysAloneWithItsAdapter) {
  int64_t preemptions = 0, found = 0, mixed = 0;
  for (const auto& [family, dtype] : {std::pair{"llama", DType::f32},
                                      {"llama", DType::bf16},
                                      {"gpt2", DType::f32},
                                      {"falcon", DType::f32},
                                      {"gpt2", DType::f64}}) {
    Models m(model_spec(tiny_config(family)), dtype);
    constexpr uint64_t kRequests = 40;
    std::vector<AdapterOutput> want;
    std::map<std::vector<int32_t>, std::vector<AdapterOutput>> by_prompt;
    for (uint64_t i = 0; i < kRequests; ++i) want.push_back(alone(m, dtype, adapter_request(i, m.base.vocab)));
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(testing::Message() << family << " " << name_of(dtype) << ", seed " << seed);
      std::mt19937 random(seed);
      const int64_t page = 1 + static_cast<int64_t>(random() % 5), chunk = 1 + static_cast<int64_t>(random() % 20);
      const int64_t pages = (kAdapterContext + page - 1) / page + static_cast<int64_t>(random() % 40);
      KvPool pool(kv_shape(m.base, page, dtype), pages, m.arena);
      VirtualClock clock;
      const BatchExecutor run = model_executor(m.base, m.beside, m.turns(), m.arena, 3);
      const BatchExecutor counting = [&](const Batch& batch, const KvPool& p) {
        for (const Work& w : batch) mixed += w.sequence->adapter != batch.front().sequence->adapter;
        return run(batch, p);
      };
      Engine engine(pool, counting, nullptr,
                    {{.token_budget = chunk + 12, .chunk = chunk, .max_running = 12}, kAdapterContext, seed != 3},
                    clock);
      std::map<uint64_t, uint64_t> number_of;
      std::map<uint64_t, std::vector<Sample>> got;
      for (uint64_t i = 0; i < kRequests || !engine.idle();) {
        while (i < kRequests && (engine.idle() || random() % 2 == 0)) {
          const Request r = adapter_request(i, m.base.vocab);
          got[i].resize(static_cast<size_t>(r.num_samples));
          number_of[engine.submit(r)] = i, ++i;
        }
        for (const Event& event : engine.step()) {
          if (!event.finished) continue;
          preemptions += event.finished->num_preemptions;
          got[number_of.at(event.request)][static_cast<size_t>(event.sample)] = *event.finished;
        }
      }
      for (uint64_t i = 0; i < kRequests; ++i)
        EXPECT_EQ(said(got[i]), want[i]) << "request " << i << ", adapter " << adapter_request(i, 2).adapter;
      if (engine.prefix_cache()) found += engine.prefix_cache()->found_tokens();
    }
  }
  EXPECT_GT(preemptions, 50);
  EXPECT_GT(found, 500);
  EXPECT_GT(mixed, 1000);
}

// The adapters do something, each its own: else the test above would see nothing.
TEST(AdaptersBeside, EachSaysSomethingElse) {
  Models m(model_spec(tiny_config("llama")), DType::f32);
  Request r = adapter_request(3, m.base.vocab);
  r.max_tokens = 20, r.num_samples = 1, r.sampling.temperature = 0;
  std::vector<AdapterOutput> all;
  for (r.adapter = kNoAdapter; r.adapter < 3; ++r.adapter) all.push_back(alone(m, DType::f32, r));
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(all[i], all[j]) << i << " " << j;
}

// A conversation that is taken up with another adapter starts anew.
TEST(AdaptersBeside, KeptPrefixesBelongToOneAdapter) {
  Models m(model_spec(tiny_config("llama")), DType::f32);
  KvPool pool(kv_shape(m.base, 4, DType::f32), 40, m.arena);
  VirtualClock clock;
  Engine engine(pool, model_executor(m.base, m.beside, m.turns(), m.arena, 3), nullptr,
                {{.token_budget = 64, .chunk = 64}, kAdapterContext}, clock);
  Request r = adapter_request(3, m.base.vocab);
  r.max_tokens = 6, r.num_samples = 1;
  const uint64_t prefix = engine.keep_prefix();
  for (const int adapter : {0, 0, 1, kNoAdapter, kNoAdapter}) {
    r.adapter = adapter;
    r.prefix = {};
    const AdapterOutput want = alone(m, DType::f32, r);
    const int64_t reused_most = engine.prefix_tokens(prefix);
    r.prefix = prefix;
    const std::vector<Sample> got = run_request(engine, r, {}, {}, nullptr);
    EXPECT_EQ(said(got), want) << adapter;
    EXPECT_LE(got[0].reused_tokens, reused_most);
  }
  EXPECT_GT(engine.prefix_tokens(prefix), 0);
  engine.drop_prefix(prefix);
}

TEST(AdaptersBeside, ThePriceIsWhatIsCounted) {
  const std::string golden = source_dir() + "/tests/golden/";
  for (const DType dtype : {DType::f32, DType::bf16}) {
    ModelDescription model = describe_model(golden + "models/llama", dtype);
    const InferenceFit without = inference_fit(model.spec, dtype, {.context = 32, .iteration_tokens = 16});
    take_adapter_beside(model, "names", golden + "adapters/names");
    take_adapter_beside(model, "regex", golden + "adapters/regex");
    const InferenceNeeds needs{.context = 32, .iteration_tokens = 16, .adapters = model.beside};
    const InferenceFit fit = inference_fit(model.spec, dtype, needs);
    Arena arena;
    const ModelWeights weights = load_for_inference(model, arena);
    EXPECT_EQ(arena.current_total(), fit.weights);
    EXPECT_EQ(fit.weights, without.weights + fit.adapters);
    int64_t numbers = 0;
    for (const NamedAdapter& a : model.beside) numbers += num_parameters(a.spec) - num_parameters(model.spec);
    EXPECT_EQ(fit.adapters, numbers * size_of(dtype));
    // All rows of one adapter are what takes most.
    KvPool pool(kv_shape(model.spec, 16, dtype), 2, arena);
    const RopeTable rope = rope_table(model.spec, 32, 32);
    int64_t most = 0;
    for (int adapter = kNoAdapter; adapter < 2; ++adapter) {
      const PeakScope scope(arena);
      Request r;
      r.prompt = random_tokens(16, model.spec.vocab, 1);
      r.adapter = adapter, r.max_tokens = 2;
      Engine engine(pool, model_executor(model.spec, weights, &rope, arena, 2), nullptr,
                    {{.token_budget = 16, .chunk = 16}, 32}, real_clock());
      run_request(engine, r, {}, {}, nullptr);
      EXPECT_LE(scope.peak().total, fit.tensors()) << adapter;
      most = std::max(most, scope.peak().total);
    }
    EXPECT_EQ(most, fit.tensors()) << name_of(dtype);
    const MemoryBudget little{fit.total() - 1, "the test"};
    try {
      check_fit(model.spec, dtype, needs, little);
      ADD_FAILURE() << "fits into less than it takes";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::does_not_fit);
      EXPECT_NE(std::string(e.what()).find("of adapters)"), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace tern
