// Sequences with gated adapters: each says what it says alone, whoever shares its batch and however its prompt is cut.
#include "infer/gated_executor.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "infer/engine.h"
#include "infer/run.h"
#include "model/adapter_files.h"
#include "model/model_testing.h"
#include "model/pack_weights.h"

namespace tern {
namespace {

constexpr uint64_t kGatedSeed = 23;
constexpr int64_t kGatedContext = 40;

// A model with two branches beside it, and a directory of gates for them.
struct GatedCase {
  std::string root = testing::TempDir() + "tern-gated-XXXXXX";  // tests run beside each other
  ModelSpec base, adapted;
  Arena arena;
  ModelWeights weights;
  GatedAdapter gated;
  RopeTable rope;
  const RopeTable* turns() const { return base.rope.kind == RopeKind::none ? nullptr : &rope; }

  GatedCase(const std::string& family, DType dtype)
      : base(model_spec(tiny_config(family))), rope(rope_table(base, kGatedContext, kGatedContext)) {
    weights = random_weights(base, dtype, arena, kGatedSeed);
    pack_weights(base, weights, arena);
    const PeftConfig config{.targets = {.all_linear = true}, .rank = 3, .alpha = 5};
    adapted = with_adapters(base, config, "the test");
    GatedAdapter made{.prompt_tokens = 4, .gates = {}, .branches = {}};
    std::mt19937 random(5);
    std::normal_distribution<double> number;
    EXPECT_NE(::mkdtemp(root.data()), nullptr);
    for (const char* name : {"0-plays", "1-code"}) {
      const ModelWeights branch = random_weights(adapted, dtype, arena, kGatedSeed + made.gates.size());
      made.branches.push_back(join_path(join_path(root, "made"), name));
      save_adapters(adapted, config, branch, made.branches.back(), real_io());
      const int64_t width = std::get<EmbedSpec>(base.units.front().spec).width;
      InputGate gate{.width = width, .hidden = 5, .first = {}, .second = {}, .key = {}};
      gate.first.resize(static_cast<size_t>(5 * width)), gate.second.resize(gate.first.size());
      gate.key.resize(static_cast<size_t>(width));
      for (std::vector<double>* list : {&gate.first, &gate.second, &gate.key})
        for (double& x : *list) x = number(random);
      made.gates.push_back(std::move(gate));
    }
    const std::string dir = join_path(root, "gated");
    write_gated_adapter(made, dir, real_io());
    gated = read_gated_adapter(dir);
    EXPECT_EQ(gated.gates[1].second, made.gates[1].second) << "every bit comes back";
    for (size_t i = 0; i < 2; ++i)
      load_adapter_beside(adapted, "", gated.branches[i], dtype, static_cast<int>(i), weights, arena);
  }
  ~GatedCase() { remove_all(real_io(), root); }
  GatedCase(const GatedCase&) = delete;
};

Request gated_request(uint64_t number, int64_t vocab) {
  Request r;
  std::mt19937 random(static_cast<uint32_t>(number));
  const size_t length = 1 + random() % 20;
  for (size_t i = 0; i < length; ++i) r.prompt.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)));
  r.sampling.temperature = random() % 3 ? 1.0 : 0.0;
  r.sampling.seed = number;
  r.max_tokens = 1 + static_cast<int64_t>(random() % 12);
  return r;
}

using GatedOutput = std::pair<std::vector<int32_t>, double>;
GatedOutput said(const Sample& s) { return {s.token_ids, s.sum_log_probability}; }

GatedOutput run_alone(GatedCase& c, DType dtype, const BatchExecutor& execute, const Request& request) {
  KvPool pool(kv_shape(c.base, 16, dtype), 10, c.arena);
  VirtualClock clock;
  Engine engine(pool, execute, nullptr, {{.token_budget = 64, .chunk = 64}, kGatedContext}, clock);
  return said(run_request(engine, request, {}, {}, nullptr).front());
}

TEST(GatedExecutor, AMixedBatchSaysToTheBitWhatSingleRunsSay) {
  for (const auto& [family, dtype] : {std::pair{"llama", DType::f32}, {"gpt2", DType::bf16}, {"falcon", DType::f64}}) {
    SCOPED_TRACE(family);
    GatedCase c(family, dtype);
    const BatchExecutor execute = gated_executor(c.base, c.weights, c.gated, c.turns(), c.arena);
    constexpr uint64_t kRequests = 16;
    std::vector<GatedOutput> want;
    for (uint64_t i = 0; i < kRequests; ++i)
      want.push_back(run_alone(c, dtype, execute, gated_request(i, c.base.vocab)));
    size_t most = 0;
    const BatchExecutor counting = [&](const Batch& batch, const KvPool& pool) {
      most = std::max(most, batch.size());
      return execute(batch, pool);
    };
    for (const int64_t chunk : {3, 64}) {
      KvPool pool(kv_shape(c.base, 4, dtype), 30, c.arena);  // too few for all: some are preempted
      VirtualClock clock;
      Engine engine(pool, counting, nullptr,
                    {{.token_budget = chunk + 8, .chunk = chunk, .max_running = 8}, kGatedContext}, clock);
      std::map<uint64_t, uint64_t> number_of;
      for (uint64_t i = 0; i < kRequests; ++i) number_of[engine.submit(gated_request(i, c.base.vocab))] = i;
      uint64_t ended = 0;
      while (!engine.idle())
        for (const Event& event : engine.step()) {
          if (!event.finished) continue;
          EXPECT_EQ(said(*event.finished), want[number_of.at(event.request)]);
          ++ended;
        }
      EXPECT_EQ(ended, kRequests);
    }
    EXPECT_GE(most, 4u);
  }
}

// Requests for the model, for one adapter and for the gates of two, all with one beginning: what the cache keeps of a prompt serves
// those whose keys do not follow from the rest of it.
TEST(SideExecutor, GatesStandBesideAdaptersAndTheModelToTheBit) {
  for (const auto& [family, dtype] : {std::pair{"llama", DType::f32}, {"gpt2", DType::bf16}}) {
    SCOPED_TRACE(family);
    GatedCase c(family, dtype);
    constexpr int kGates = 0, kPlain = 1;
    const BatchExecutor execute = side_executor(
        c.base, c.weights, {SideAdapter{.first = 0, .gates = c.gated}, SideAdapter{.first = 1}}, c.turns(), c.arena);
    const auto asked = [&](uint64_t i) {
      Request r = gated_request(i, c.base.vocab);
      const Request same = gated_request(3, c.base.vocab);
      std::vector<int32_t> begin(same.prompt.begin(),
                                 same.prompt.begin() + std::min<std::ptrdiff_t>(9, std::ssize(same.prompt)));
      while (begin.size() < 9) begin.push_back(static_cast<int32_t>(begin.size()));
      r.prompt.insert(r.prompt.begin(), begin.begin(), begin.end());
      r.max_tokens = std::min<int64_t>(r.max_tokens, kGatedContext - std::ssize(r.prompt));
      return r;
    };
    constexpr uint64_t kRequests = 15;
    std::vector<GatedOutput> want;
    for (uint64_t i = 0; i < kRequests; ++i) {
      Request alone = asked(i);
      if (i % 3 == 0) {
        want.push_back(run_alone(c, dtype, gated_executor(c.base, c.weights, c.gated, c.turns(), c.arena), alone));
        continue;
      }
      if (i % 3 == 1) alone.adapter = 1;  // of the weights'
      want.push_back(run_alone(c, dtype, model_executor(c.base, c.weights, c.turns(), c.arena, 2), alone));
    }
    for (const int64_t running : {1, 6}) {
      KvPool pool(kv_shape(c.base, 4, dtype), 60, c.arena);
      VirtualClock clock;
      Engine engine(pool, execute, nullptr,
                    {.scheduler = {.token_budget = 24, .chunk = 16, .max_running = running},
                     .context = kGatedContext,
                     .cache_prefixes = true,
                     .of_prompts = {kGates}},
                    clock);
      std::map<uint64_t, uint64_t> number_of;
      for (uint64_t i = 0; i < kRequests; ++i) {
        Request r = asked(i);
        r.adapter = i % 3 == 0 ? kGates : i % 3 == 1 ? kPlain : kNoAdapter;
        number_of[engine.submit(r)] = i;
      }
      while (!engine.idle())
        for (const Event& event : engine.step())
          if (event.finished) {
            const uint64_t i = number_of.at(event.request);
            EXPECT_EQ(said(*event.finished), want[i]) << i << " of at most " << running;
            if (i % 3 == 0) { EXPECT_EQ(event.finished->reused_tokens, 0); }
          }
      EXPECT_GT(engine.prefix_cache()->found_tokens(), 0);
    }
  }
}

// A conversation: the second prompt goes on with the first, but other gates read it.
TEST(SideExecutor, AConversationWithGatesKeepsNoKeysOfItsLastTurn) {
  GatedCase c("llama", DType::f32);
  const BatchExecutor execute = gated_executor(c.base, c.weights, c.gated, c.turns(), c.arena);
  KvPool pool(kv_shape(c.base, 4, DType::f32), 30, c.arena);
  VirtualClock clock;
  Engine engine(pool, execute, nullptr,
                {.scheduler = {.token_budget = 64, .chunk = 64}, .context = kGatedContext, .of_prompts = {kNoAdapter}},
                clock);
  Request r = gated_request(5, c.base.vocab);
  r.prefix = engine.keep_prefix();
  for (int turn = 0; turn < 3; ++turn) {
    Request alone = r;
    alone.prefix.reset();
    const Sample got = run_request(engine, r, {}, {}, nullptr).front();
    EXPECT_EQ(said(got), run_alone(c, DType::f32, execute, alone)) << turn;
    EXPECT_EQ(got.reused_tokens, 0) << turn;
    for (const int32_t id : {7, 1, 4}) r.prompt.push_back(id);
    r.max_tokens = 4;
  }
  engine.drop_prefix(*r.prefix);
}

// The same numbers by a model whose branches simply have those scales.
TEST(GatedExecutor, ASequenceHasItsBranchesTimesItsGates) {
  GatedCase c("llama", DType::f32);
  const Request request = gated_request(5, c.base.vocab);
  const std::vector<double> gates = gates_of(c.gated, c.base, c.weights, request.prompt);
  EXPECT_GT(gates[0], 0);
  EXPECT_NE(gates[0], gates[1]);
  ModelWeights scaled = c.weights;
  GatedBranches(c.base, scaled, 2).set(gates);
  const GatedOutput want = run_alone(c, DType::f32, model_executor(c.base, scaled, c.turns(), c.arena), request);
  EXPECT_EQ(run_alone(c, DType::f32, gated_executor(c.base, c.weights, c.gated, c.turns(), c.arena), request), want);
  const std::vector<double> open{1, 1};
  ModelWeights all = c.weights;
  GatedBranches(c.base, all, 2).set(open);
  EXPECT_NE(run_alone(c, DType::f32, model_executor(c.base, all, c.turns(), c.arena), request), want);
}

TEST(GatedExecutor, FilesThatAreNotWholeAreRefusedByName) {
  GatedCase c("llama", DType::f32);
  const std::string dir = parent_path(c.gated.branches[0]), json = join_path(dir, "gates.json");
  const auto message = [&](const std::string& text) -> std::string {
    write_file_atomically(real_io(), json, text);
    try {
      read_gated_adapter(dir);
    } catch (const Error& e) { return e.what(); }
    return "";
  };
  const std::string begin = R"({"format": "tern gated adapters 1", "prompt_tokens": )";
  EXPECT_EQ(message(begin + R"(4, "branches": ["0-plays", "1-code"]})"), "");
  EXPECT_NE(message("{}").find("format"), std::string::npos);
  EXPECT_NE(message(begin + R"(0, "branches": ["0-plays"]})").find("prompt_tokens"), std::string::npos);
  EXPECT_NE(message(begin + R"(4, "branches": ["0-plays"]})").find("6 tensors"), std::string::npos);
  EXPECT_NE(message(begin + R"(4, "branches": ["../x", "1-code"]})").find("branches"), std::string::npos);
  EXPECT_NE(message(begin + R"(4, "branches": ["0-plays", "1-code", "2"]})").find("first.2"), std::string::npos);
}

}  // namespace
}  // namespace tern
