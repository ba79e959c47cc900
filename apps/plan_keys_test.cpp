// Keys and values on the disk of a plan of inference: the executor's bytes, tern generate's choice, and what it says.
#include "apps/plan_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "apps/kv_place.h"
#include "apps/machine_testing.h"
#include "apps/stream_bands.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/rounding.h"
#include "base/source_dir_testing.h"
#include "hardware/cluster.h"
#include "hardware/machine.h"
#include "infer/executor.h"
#include "infer/run.h"
#include "infer/stream_times.h"
#include "model/model_testing.h"
#include "model/pack_weights.h"
#include "model/rope_table.h"
#include "spec/presets.h"
#include "store/scratch_testing.h"

namespace tern {
namespace {

ServingQuestion question(const Cluster& cluster, int64_t users = 8) {
  return {.spec = *preset_model("llama-2-7b"),
          .cluster = cluster,
          .model = "llama-2-7b",
          .job = {.prompt = 2048, .answer = 256, .users = users, .spill = false, .latent_cache = false},
          .tern = true};
}

InferenceFit fit_with(const ServingQuestion& q, int64_t layers) {
  InferenceNeeds needs = engine_needs(q.job, std::max<int64_t>(q.job.users, 1));
  needs.kv_on_disk = layers;
  return inference_fit(q.spec, q.job.dtype, needs);
}

// As if memory did not hold what is asked.
KeysAnswer answer_to(const ServingQuestion& q, const std::string& place = "auto") {
  ServingAnswer unfit;
  unfit.memory = true;
  return plan_keys(q, place, unfit);
}

// Pages of 16 tokens are whole blocks of 4 KiB.
ModelSpec model_of_whole_blocks() {
  HfConfig c = tiny_config("llama");
  c.num_hidden_layers = 4, c.hidden_size = 64, c.head_dim = 16;
  c.num_attention_heads = c.num_key_value_heads = 4;
  return model_spec(c);
}

// The executor counts what it moves; the planner's bytes are that.
TEST(PlanKeys, ARequestMovesTheBytesOfItsPromptAndItsSteps) {
  constexpr int64_t kChunk = 32, kContext = 112;
  const ModelSpec spec = model_of_whole_blocks();
  Arena weights_arena;
  ModelWeights weights = random_weights(spec, DType::f32, weights_arena, 5);
  pack_weights(spec, weights, weights_arena);
  const RopeTable rope = rope_table(spec, kContext, kContext);
  const KvShape shape = kv_shape(spec, 16, DType::f32);
  const int64_t pages = ceil_div(kContext, shape.page_tokens);
  for (const int64_t layers : {1, 3, 4})
    for (const int64_t prompt : {1, 5, 32, 33, 80, 97}) {
      Arena arena;
      auto file = std::make_unique<MemoryScratch>(kv_file_bytes(shape, pages, layers), kKvAlignment);
      const auto disk = std::make_shared<KvOnDisk>(std::move(file), shape, pages, layers, arena);
      KvPool pool(shape, pages, arena, disk);
      Engine engine(pool, model_executor(spec, weights, &rope, arena), nullptr,
                    {.scheduler = {.token_budget = kChunk, .chunk = kChunk, .max_running = 1}, .context = kContext},
                    real_clock());
      Request request;
      request.prompt = random_tokens(prompt, spec.vocab, 7), request.max_tokens = 15;
      const std::vector<Sample> samples = run_request(engine, request, {}, {}, nullptr);
      ASSERT_EQ(samples.front().token_ids.size(), 15u);
      KvMoved want = prompt_moved(shape, layers, prompt, kChunk);
      for (int64_t past = prompt; past < prompt + 14; ++past) {
        const KvMoved step = kv_step_bytes(shape, layers, 1, past);
        want.read += step.read, want.written += step.written;
      }
      EXPECT_EQ(disk->counts().read_bytes(), want.read) << layers << " layers, prompt of " << prompt;
      EXPECT_EQ(disk->counts().written_bytes(), want.written) << layers << " layers, prompt of " << prompt;
    }
}

TEST(PlanKeys, AStepMovesTheClosedFormAndTakesBetweenTheLargerAndTheSum) {
  for (const double rate : {1e8, 3e9, 1e11}) {
    const ServingQuestion q = question(machine_of_tern(1, rate, rate / 3));
    const Machine m = machine_of(q.cluster, 0);
    for (const int64_t users : {1, 8, 50})
      for (const int64_t layers : {0, 1, 8, 17, 32}) {
        InferenceNeeds needs = engine_needs(q.job, users);
        needs.kv_on_disk = layers;
        const KeysStep step = keys_step(q.spec, q.job, m, needs, 2175);
        const KvShape shape = kv_shape(q.spec, q.job.dtype, needs);
        EXPECT_EQ(step.moved, kv_step_bytes(shape, layers, users, 2175));
        EXPECT_EQ(step.moved.read, layers * users * 2176 * 2 * 4096 * 2);
        const double seconds =
            static_cast<double>(step.moved.read) / rate + static_cast<double>(step.moved.written) / (rate / 3);
        EXPECT_NEAR(static_cast<double>(step.disk_ps) * 1e-12, seconds, 1e-6 * seconds);
        EXPECT_GE(step.step_ps, std::max(step.disk_ps, step.products_ps));
        EXPECT_LE(step.step_ps, step.disk_ps + step.products_ps);
        const ServingMemory memory = serving_memory(q.spec, q.job, m, {}, users);
        ServingMemory resident = memory;
        resident.weights_on = {memory.weights, 0, 0}, resident.kv_on = {memory.kv, 0, 0};
        EXPECT_EQ(step.products_ps, serving_times(q.spec, q.job, m, {}, resident, users).decode_ps);
      }
  }
}

// From the least memory to all that is needed: the fewest layers that fit, as tern generate has it, and never a slower token.
TEST(PlanKeys, MoreMemoryTakesNoMoreLayersAndIsNeverSlower) {
  for (const double rate : {2e8, 2e9, 2e11}) {
    ServingQuestion q = question(machine_of_tern(1, rate, rate / 2));
    const int64_t least = fit_with(q, 32).total(), all = fit_with(q, 0).total();
    ASSERT_LT(least, all);
    q.cluster.devices[0].memory_bytes = least - 1;
    const KeysAnswer none = answer_to(q);
    EXPECT_FALSE(none.keys);
    EXPECT_NE(none.reason.find("32 of 32 layers"), std::string::npos) << none.reason;
    int64_t layers = 33, in_memory = 0;
    double tpot = 1e30, ttft = 1e30;
    for (int64_t i = 0; i <= 14; ++i) {
      q.cluster.devices[0].memory_bytes = least + (all - least) * i / 15;
      const KeysAnswer got = answer_to(q);
      ASSERT_TRUE(got.keys) << i << ": " << got.reason;
      const PlannedKeys& p = *got.keys;
      int64_t want = 0;
      while (fit_with(q, want).total() > q.cluster.devices[0].memory_bytes) want += 8;
      EXPECT_EQ(p.needs.kv_on_disk, want) << i;
      EXPECT_LE(p.needs.kv_on_disk, layers) << i;
      EXPECT_LE(p.plan.tpot_s, tpot) << i;
      EXPECT_LE(p.plan.ttft_s, ttft) << i;
      EXPECT_EQ(p.missing_bytes, all - q.cluster.devices[0].memory_bytes);
      EXPECT_EQ(p.plan.decode.memory.kv_on[0], p.fit.kv_cache);
      EXPECT_EQ(p.plan.decode.times.binds == "disk", p.step.disk_ps >= p.step.products_ps);
      EXPECT_GE(p.most_in_memory, in_memory) << i;
      in_memory = p.most_in_memory, layers = p.needs.kv_on_disk, tpot = p.plan.tpot_s, ttft = p.plan.ttft_s;
    }
    EXPECT_GT(in_memory, 0);
    q.cluster.devices[0].memory_bytes = all;
    const ServingAnswer whole = plan_serving(q.spec, q.cluster, q.job);
    ASSERT_TRUE(whole.found);
    EXPECT_LE(whole.plan.tpot_s, tpot);
    EXPECT_LE(whole.plan.ttft_s, ttft);
    EXPECT_FALSE(plan_keys(q, "auto", whole).keys) << "nothing goes to the disk while all fits";
  }
}

TEST(PlanKeys, ADiskWithoutRatesIsNamedAndNothingIsPriced) {
  ServingQuestion q = question(machine_of_tern(1));
  q.cluster.devices[0].memory_bytes = fit_with(q, 16).total();
  EXPECT_TRUE(answer_to(q).keys);
  EXPECT_FALSE(answer_to(q, "memory").keys);
  EXPECT_EQ(answer_to(q, "memory").reason, "");
  q.cluster.nodes[0].disk_bytes = 0;
  for (const std::string place : {"auto", "disk"}) {
    std::string why;
    try {
      why = answer_to(q, place).reason;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      EXPECT_EQ(place, "disk");
      why = e.what();
    }
    EXPECT_NE(why.find("disk_read"), std::string::npos) << why;
    EXPECT_NE(why.find("'this'"), std::string::npos) << why;
  }
  // A disk too small for what must leave memory.
  q.cluster.nodes[0].disk_bytes = 1 << 20;
  EXPECT_FALSE(answer_to(q).keys);
  EXPECT_THROW(answer_to(q, "disk"), Error);
}

TEST(PlanKeys, WhereMemoryWouldDoItIsSaid) {
  ServingQuestion q = question(machine_of_tern(1));
  q.cluster.devices[0].memory_bytes = fit_with(q, 0).total();
  const KeysAnswer asked = answer_to(q, "disk");
  ASSERT_TRUE(asked.keys) << asked.reason;
  EXPECT_EQ(asked.keys->needs.kv_on_disk, 32);
  EXPECT_EQ(asked.keys->missing_bytes, 0);
  EXPECT_NE(keys_text(q, *asked.keys).find("would hold everything"), std::string::npos);
  EXPECT_TRUE(keys_json(q, *asked.keys)["memory_would_suffice"].get<bool>());
  q.cluster.devices[0].memory_bytes -= int64_t{1} << 30;
  const KeysAnswer needed = answer_to(q);
  ASSERT_TRUE(needed.keys) << needed.reason;
  const std::string text = keys_text(q, *needed.keys);
  for (const char* part : {"of 8 of 32 layers", "layers 3, 7, 11, 15", "1.00 GiB more would hold everything",
                           "a step of 8 sequences with 2176 tokens each reads", "--batch 8", "not weighed"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  const Json json = keys_json(q, *needed.keys);
  EXPECT_EQ(json["bytes_per_token"].get<int64_t>() * 8,
            json["step_read_bytes"].get<int64_t>() + json["step_written_bytes"].get<int64_t>());
  EXPECT_EQ(json["layers_on_disk"].size(), 8u);
  EXPECT_FALSE(json["is_a_bound"].get<bool>());
  EXPECT_NEAR(json["tokens_per_s"].get<double>() * json["step_s"].get<double>(), 8, 1e-9);
}

TEST(PlanKeys, TheMostUsersWithinATargetAreTheMost) {
  ServingQuestion q = question(machine_of_tern(int64_t{64} << 30, 4e9, 2e9), 0);
  q.job.tpot_s = 10;
  const KeysAnswer most = answer_to(q, "disk");
  ASSERT_TRUE(most.keys) << most.reason;
  const int64_t users = most.keys->plan.users;
  EXPECT_GT(users, 1);
  EXPECT_LE(most.keys->plan.tpot_s, 10);
  q.job.users = users;
  EXPECT_EQ(answer_to(q, "disk").keys->plan.tpot_s, most.keys->plan.tpot_s);
  q.job.users = users + 1;
  EXPECT_THROW(answer_to(q, "disk"), Error);
}

// With the model's files, some of its weights may stream instead: the fewest bytes of all that is weighed, by plain loops.
TEST(PlanKeys, WeightsStreamInsteadWhereThatMovesFewerBytes) {
  const std::string path = source_dir() + "/examples/novels-6m";
  const ModelDescription model = describe_model(path, DType::bf16);
  ServingQuestion q = question(machine_of_tern(1));
  q.spec = model.spec, q.model = path;
  size_t streamed = 0, moved_keys = 0;
  for (const int64_t users : {1, 64, 400}) {
    q.job = {.prompt = 4, .answer = 124, .users = users, .spill = false, .latent_cache = false};
    const int64_t all = fit_with(q, 0).total();
    for (const int64_t less : {int64_t{1}, all / 8, all / 4, all / 2}) {
      SCOPED_TRACE(testing::Message() << users << " users, " << less << " bytes too few of " << all);
      q.cluster.devices[0].memory_bytes = all - less;
      const MemoryBudget budget{all - less, "a test"};
      double best = 1e30;
      const KvPlace place{.memory = true, .disk = true, .directory = {}, .free_bytes = 1'000'000'000'000};
      for (const int64_t layers : kv_layers_to_weigh(place, model, engine_needs(q.job, users))) {
        InferenceNeeds needs = engine_needs(q.job, users);
        needs.kv_on_disk = layers;
        if (best < 1e30 && !kv_may_pay(model, needs, 66)) continue;
        double bytes = kv_step_cost(model, needs, 66);
        if (inference_fit(q.spec, q.job.dtype, needs).total() > budget.bytes) {
          const int64_t chunk = chunk_of_fewest_bytes(model, needs, budget, 4, 124, q.job.chunk);
          needs.iteration_tokens = iteration_tokens(4, chunk, users);
          const auto stream = stream_if_fits(model, needs, budget);
          bytes = stream ? bytes + expected_bytes(*stream, users) : 1e30;
        }
        best = std::min(best, bytes);
      }
      const KeysAnswer got = answer_to(q);
      ASSERT_EQ(got.keys.has_value(), best < 1e30) << got.reason;
      if (!got.keys) continue;
      const PlannedKeys& p = *got.keys;
      EXPECT_DOUBLE_EQ(p.weights_bytes + kv_step_cost(model, p.needs, 66), best);
      EXPECT_TRUE(p.weighed_weights);
      EXPECT_LE(p.fit.total(), budget.bytes);
      if (p.weights_bytes > 0) {
        const int64_t bound = std::max(p.step.disk_ps, p.step.products_ps);
        EXPECT_GE(p.step.step_ps, bound);
        EXPECT_TRUE(p.needs.kv_on_disk > 0 || p.step.step_ps == bound);
      }
      streamed += p.weights_bytes > 0, moved_keys += p.needs.kv_on_disk > 0;
    }
  }
  EXPECT_GT(streamed, 0u);
  EXPECT_GT(moved_keys, 0u);
}

}  // namespace
}  // namespace tern
