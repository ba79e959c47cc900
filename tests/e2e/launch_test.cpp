// `tern launch`: processes that have the bits of threads, whose runs stop and go on, and what it cannot run.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/io.h"
#include "tests/e2e/launched_process.h"

namespace tern {
namespace {

TEST(LaunchSlow, ProcessesHaveTheBitsOfThreads) {
  const TinyRun tiny;
  std::string errors;
  int out = 0;
  for (const char* dtype : {"f32", "bf16", "f64"}) {
    const auto on = [&](const char* ranks) {
      return tiny.command(tiny.out(++out), {"--micro-batch", "1", "--batch", "8", "--sum-groups", "8", "--dtype", dtype,
                                            "--ranks", ranks});
    };
    ASSERT_EQ(run_to_end(on("2"), tiny.root(), &errors), 0) << errors;
    const std::string want = final_bits(tiny.out(out));
    for (const int ranks : {2, 4, 8}) {
      if (ranks == 8 && dtype != std::string("f32")) continue;
      Words words = on(std::to_string(ranks).c_str());
      if (ranks == 4) words.insert(words.end(), {"--zero", "1"});  // shared or not
      ASSERT_EQ(run_to_end(launched(ranks, words), tiny.root(), &errors), 0) << errors;
      EXPECT_EQ(final_bits(tiny.out(out)) == want, true) << dtype << " on " << ranks << " processes";
    }
  }
}

TEST(Launch, ProcessesShareOutWeights) {
  const TinyRun tiny;
  std::string errors;
  const auto on = [&](int out, const char* zero) {
    return tiny.command(tiny.out(out), {"--micro-batch", "1", "--sum-groups", "2", "--ranks", "2", "--zero", zero});
  };
  ASSERT_EQ(run_to_end(on(1, "2"), tiny.root(), &errors), 0) << errors;
  ASSERT_EQ(run_to_end(on(2, "3"), tiny.root(), &errors), 0) << errors;
  ASSERT_EQ(run_to_end(launched(2, on(3, "3")), tiny.root(), &errors), 0) << errors;
  EXPECT_TRUE(final_bits(tiny.out(2)) == final_bits(tiny.out(1))) << "threads";
  EXPECT_TRUE(final_bits(tiny.out(3)) == final_bits(tiny.out(1))) << "processes";
}

TEST(Launch, ProcessesShareOutMatrices) {
  const TinyRun tiny;
  std::string errors;
  const auto on = [&](int out) {
    return tiny.command(tiny.out(out), {"--micro-batch", "1", "--ranks", "4", "--tensor-parallel", "2"});
  };
  ASSERT_EQ(run_to_end(on(1), tiny.root(), &errors), 0) << errors;
  ASSERT_EQ(run_to_end(launched(4, on(2)), tiny.root(), &errors), 0) << errors;
  EXPECT_TRUE(final_bits(tiny.out(2)) == final_bits(tiny.out(1)));
}

TEST(Launch, ProcessesRunAPlanOfStages) {
  const TinyRun tiny;
  const std::string file = tiny.root() + "/plan.json";
  std::string errors;
  const Words plan =
      plan_command(tiny, "pp=2,dp=2,tp=1,cp=1,zero=0,micro-batch=1", file, {"--batch", "4", "--schedules", "1f1b"});
  ASSERT_EQ(run_to_end(plan, tiny.root(), &errors), 0) << errors;
  const Words planned{"--plan", file, "--micro-batch", "1"}, alone{"--micro-batch", "1", "--sum-groups", "2"};
  ASSERT_EQ(run_to_end(tiny.command(tiny.out(1), planned), tiny.root(), &errors), 0) << errors;
  ASSERT_EQ(run_to_end(launched(4, tiny.command(tiny.out(2), planned)), tiny.root(), &errors), 0) << errors;
  EXPECT_EQ(run_to_end(launched(2, tiny.command(tiny.out(4), planned)), tiny.root(), &errors), 2);
  EXPECT_NE(errors.find("the plan is of 4 ranks, and 2 were started; start 4 with tern launch -n 4"), std::string::npos)
      << errors;
  ASSERT_EQ(run_to_end(tiny.command(tiny.out(3), alone), tiny.root(), &errors), 0) << errors;
  EXPECT_TRUE(final_bits(tiny.out(1)) == final_bits(tiny.out(3))) << "threads";
  EXPECT_TRUE(final_bits(tiny.out(2)) == final_bits(tiny.out(3))) << "processes";
}

TEST(Launch, AStopEndsAllAtOneStepAndThreadsGoOn) {
  const TinyRun tiny;
  std::string errors;
  const auto command = [&](int out, const char* ranks) {
    return tiny.command(tiny.out(out), {"--micro-batch", "1", "--sum-groups", "4", "--ranks", ranks});
  };
  ASSERT_EQ(run_to_end(command(0, "1"), tiny.root(), &errors), 0) << errors;
  for (const int signal : {SIGINT, SIGTERM}) {
    const int out = signal;
    const std::string said = fmt::format("{}/said-{}", tiny.root(), signal);
    Child child(launched(2, command(out, "2")), said);
    while (child.running() && !real_io().stat(tiny.out(out) + "/checkpoints/step-3")) real_clock().sleep_ns(1'000'000);
    child.signal(signal);
    const int code = child.wait();
    EXPECT_TRUE(code == 75 || code == 0) << code << real_io().read(said);
    ASSERT_EQ(run_to_end(command(out, "4"), tiny.root(), &errors), 0) << errors;
    EXPECT_EQ(final_bits(tiny.out(out)) == final_bits(tiny.out(0)), true) << signal;
  }
  EndlessRun run(2);
  run.child.signal(SIGINT);
  EXPECT_EQ(run.child.wait(), 75) << run.text();
  EXPECT_NE(run.text().find("with everything saved; the same command goes on"), std::string::npos) << run.text();
  EXPECT_TRUE(none_left(run.out, 1));
}

TEST(Launch, WhatItCannotRunIsRefusedByName) {
  const TinyRun tiny;
  std::string errors;
  const auto refused = [&](const Words& words) {
    EXPECT_EQ(run_to_end(words, tiny.root(), &errors), 2) << errors;
    return errors;
  };
  EXPECT_NE(refused({TERN_PROGRAM, "launch", "--", "train"}).find("how many ranks? Say -n N"), std::string::npos);
  EXPECT_NE(refused({TERN_PROGRAM, "launch", "-n", "2"}).find("what is to run stands after --"), std::string::npos);
  EXPECT_NE(refused({TERN_PROGRAM, "launch", "-n", "2", "--", "generate"}).find("'generate' runs on one rank"),
            std::string::npos);
  EXPECT_NE(refused(launched(2, tiny.command(tiny.out(0), {"--ranks", "4"})))
                .find("--ranks 4: tern launch has started 2 processes"),
            std::string::npos)
      << errors;
  EXPECT_NE(
      refused({TERN_PROGRAM, "launch", "-n", "2", "train", "--data", "x"}).find("is the -- before 'train …' missing?"),
      std::string::npos)
      << errors;
  EXPECT_NE(refused(launched(2, tiny.command(tiny.out(0)), {"--min-ranks", "1"}))
                .find("--min-ranks 1: nothing starts again without --max-restarts"),
            std::string::npos)
      << errors;
  EXPECT_NE(refused(tiny.command(tiny.out(0), {"--ranks", "2", "--tensor-parallel", "3"}))
                .find("--tensor-parallel: 3 does not divide --ranks 2; choose 2\n"),
            std::string::npos)
      << errors;
  Words faulty = launched(2, tiny.command(tiny.out(0)));
  faulty.insert(faulty.begin(), {"/usr/bin/env", "TERN_FAULT=die@7@100"});
  EXPECT_NE(refused(faulty).find("this run has no rank 7"), std::string::npos) << errors;
  EXPECT_NE(refused(launched(3, tiny.command(tiny.out(0)))).find("--ranks"), std::string::npos) << errors;
  EXPECT_FALSE(real_io().stat(tiny.out(0)));
}

// A plan of 2 to 8 ranks, as threads and as processes, of a dense model or a mixture.
struct PlanOfProcesses {
  int ranks;
  const char *fix, *schedule;
  bool experts = false;
};
constexpr PlanOfProcesses kPlans[] = {
    {2, "dp=2,pp=1,tp=1,cp=1,zero=0,recompute=none", "1f1b"},
    {4, "dp=4,pp=1,tp=1,cp=1,zero=1,recompute=attention", "1f1b"},
    {8, "dp=8,pp=1,tp=1,cp=1,zero=2,recompute=none", "1f1b"},
    {4, "dp=4,pp=1,tp=1,cp=1,zero=3,recompute=full", "1f1b"},
    {2, "dp=1,pp=1,tp=2,cp=1,zero=0,recompute=none", "1f1b"},
    {8, "dp=2,pp=1,tp=4,cp=1,zero=1,recompute=none", "1f1b"},
    {4, "dp=2,pp=1,tp=1,cp=2,cp-by=ulysses,zero=3,recompute=none", "1f1b"},
    {4, "dp=1,pp=1,tp=1,cp=4,cp-by=ring,zero=2,recompute=attention", "1f1b"},
    {2, "dp=1,pp=2,tp=1,cp=1,zero=0,recompute=none", "zb-v"},
    {4, "dp=1,pp=4,tp=1,cp=1,zero=0,chunks=2,recompute=none", "interleaved"},
    {6, "dp=2,pp=3,tp=1,cp=1,zero=2,recompute=none", "1f1b"},
    {8, "dp=2,pp=2,tp=2,cp=1,zero=3,recompute=full", "gpipe"},
    {2, "dp=2,pp=1,tp=1,cp=1,ep=2,zero=0,recompute=none", "1f1b", true},
    {4, "dp=4,pp=1,tp=1,cp=1,ep=2,zero=1,recompute=none", "1f1b", true},
    {4, "dp=2,pp=2,tp=1,cp=1,ep=2,zero=0,recompute=full", "1f1b", true},
};
constexpr const char* kDenseModel =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 64, "hidden_size": 16,
 "intermediate_size": 32, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64,
 "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "hidden_act": "silu"})";

constexpr const char* kMixture =
    R"({"model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"], "vocab_size": 64, "hidden_size": 16,
 "intermediate_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64,
 "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "hidden_act": "silu", "num_experts": 8, "num_experts_per_tok": 2,
 "moe_intermediate_size": 12, "shared_expert_intermediate_size": 20, "decoder_sparse_step": 1, "norm_topk_prob": false})";

class PlansOfProcessesSlow : public testing::TestWithParam<PlanOfProcesses> {};
INSTANTIATE_TEST_SUITE_P(Launch, PlansOfProcessesSlow, testing::ValuesIn(kPlans));

TEST_P(PlansOfProcessesSlow, AsProcessesHaveTheBitsOfThreads) {
  const auto& [ranks, fix, schedule, experts] = GetParam();
  const TinyRun tiny;
  write_file_atomically(real_io(), tiny.root() + "/config.json", std::string_view(experts ? kMixture : kDenseModel));
  const std::string file = tiny.root() + "/plan.json";
  std::string errors;
  const Words plan =
      plan_command(tiny, fmt::format("{},micro-batch=1", fix), file, {"--batch", "8", "--schedules", schedule});
  ASSERT_EQ(run_to_end(plan, tiny.root(), &errors), 0) << errors;
  const auto on = [&](int out) {
    return tiny.command(tiny.out(out), {"--plan", file, "--batch", "8", "--micro-batch", "1", "--steps", "6"});
  };
  const auto left_by = [&](int out) {
    return real_io().read(tiny.out(out) + "/model/model.safetensors") +
           real_io().read(tiny.out(out) + "/checkpoints/step-6/rank-0.safetensors");
  };
  ASSERT_EQ(run_to_end(on(1), tiny.root(), &errors), 0) << errors;
  ASSERT_EQ(run_to_end(launched(ranks, on(2)), tiny.root(), &errors), 0) << errors;
  EXPECT_TRUE(left_by(1) == left_by(2)) << ranks << " ranks, " << fix << ", " << schedule;
}

}  // namespace
}  // namespace tern
