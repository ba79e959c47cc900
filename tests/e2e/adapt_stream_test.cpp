// tern adapt --stream as a person uses it: killed again and again, it ends as if it had not been.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/json.h"
#include "tests/e2e/in_folder_testing.h"
#include "tests/e2e/novels_testing.h"

namespace tern {
namespace {

class AdaptStreamSlow : public InFolder<AdaptStreamSlow> {
 protected:
  static void SetUpTestSuite() {
    make_root("adapt-stream");
    for (const char* name : {"log", "sums"}) {
      std::string text;
      for (int i = 0; i < 120; ++i)
        text += std::string(name) + " " + std::to_string(i) + ": " + std::to_string(i * 7 % 31) + " and " +
                std::to_string(900 - 7 * i) + ".\n";
      write(std::string(name) + ".txt", text);
    }
    write("tasks.toml",
          "[[task]]\nname = \"log\"\ndata = \"log.txt\"\ntest = \"log.txt\"\n"
          "[[task]]\nname = \"sums\"\ndata = \"sums.txt\"\ntest = \"sums.txt\"\nsteps = 3\n");
  }
  static std::string learn(const std::string& method, const std::string& output) {
    return "adapt " + kNovels + " --stream tasks.toml --method " + method + " --output " + output +
           " --rank 2 --seq 32 --batch 2 --steps 4 --schedule constant --warmup-steps 0 --learning-rate 3e-3"
           " --eval-batches 2 --checkpoint-every 1 --statistics-windows 8";
  }
  static std::string file(const std::string& name) { return real_io().read(root_ + "/" + name); }
};

TEST_F(AdaptStreamSlow, KilledAtAnyTimeItEndsWithTheSameBits) {
  for (const char* method : {"inflora", "ewc"}) {
    const std::string name(method), whole = name + "-whole", parts = name + "-parts";
    const int64_t start_ns = real_clock().now_ns();
    const Outcome o = tern(learn(method, whole) + " --json 2>errors");
    const double seconds = seconds_between(start_ns, real_clock().now_ns());
    ASSERT_EQ(o.code, 0) << file("errors");
    const Json result = parse_json(o.text, "out");
    EXPECT_EQ(result["matrix"].size(), 2u);
    EXPECT_LT(result["matrix"][0][0].get<double>(), result["before"][0].get<double>());
    EXPECT_NE(file("errors").find("page " + whole + "/page.html"), std::string::npos) << file("errors");
    EXPECT_TRUE(result.contains("FT") && result.contains("BWT") && result.contains("FWT"));
    int kills = 0;
    for (;; ++kills) {  // each part is longer by an eighth of the whole, so that the longest stage ends in one
      ASSERT_LT(kills, 60);
      const std::string command = "timeout -s KILL " + std::to_string(seconds * (kills + 1) / 8);
      const Outcome again = run_shell("cd " + root_ + " && env -u TERN_DATA XDG_CACHE_HOME=" + root_ + "/cache " +
                                      command + " " TERN_PROGRAM " " + learn(method, parts) + " 2>errors");
      if (again.code == 0) break;
      EXPECT_EQ(again.code, 137) << file("errors");
    }
    EXPECT_GE(kills, 3) << "killed too seldom to show anything";
    for (const char* same : {"/01-log/scores.json", "/02-sums/scores.json",
                             "/02-sums/run/adapter/adapter_model.safetensors", "/page.html"})
      EXPECT_EQ(file(parts + same), file(whole + same)) << method << same;
  }
}

// The gates too, which are trained beside the adapters.
TEST_F(AdaptStreamSlow, KilledWithGatesItEndsWithTheSameBits) {
  const std::string more = " --gate-tokens 8";
  const int64_t start_ns = real_clock().now_ns();
  const Outcome o = tern(learn("gainlora", "gates-whole") + more + " --json 2>errors");
  const double seconds = seconds_between(start_ns, real_clock().now_ns());
  ASSERT_EQ(o.code, 0) << file("errors");
  const Json result = parse_json(o.text, "out");
  EXPECT_LT(result["matrix"][0][0].get<double>(), result["before"][0].get<double>());
  for (const double part : {0.4, 0.7, 100.0})
    run_shell("cd " + root_ + " && env -u TERN_DATA XDG_CACHE_HOME=" + root_ + "/cache timeout -s KILL " +
              std::to_string(seconds * part) + " " TERN_PROGRAM " " + learn("gainlora", "gates-parts") + more +
              " 2>errors");
  for (const char* same : {"/01-log/scores.json", "/02-sums/scores.json",
                           "/02-sums/run/adapter/adapter_model.safetensors", "/02-sums/gated/gates.safetensors"})
    EXPECT_TRUE(file(std::string("gates-parts") + same) == file(std::string("gates-whole") + same)) << same;
  // What was learned is used where there is no answer to write, too.
  const auto judged = [&](const std::string& rest) {
    const Outcome eval = tern("eval " + kNovels + " --json" + rest + " 2>errors");
    EXPECT_EQ(eval.code, 0) << file("errors");
    return parse_json(eval.text, "out");
  };
  const std::string text = " --data log.txt --window 32", gates = " --adapter gates-whole/02-sums/gated";
  const double with_gates = judged(text + gates)["perplexity"].get<double>();
  EXPECT_LT(with_gates, judged(text)["perplexity"].get<double>());
  const Json compared = judged(text + gates + " --reference " + kNovels);
  EXPECT_GT(compared["kl_divergence"].get<double>(), 0);
  EXPECT_NEAR(compared["perplexity"].get<double>(), with_gates, 1e-3 * with_gates);
  write("asked.jsonl",
        "{\"prompt\": \"log 3: \", \"choices\": [\"21 and 879.\", \"Alas!\"], \"answer\": 0}\n"
        "{\"prompt\": \"sums 4: \", \"choices\": [\"Alas!\", \"28 and 872.\"], \"answer\": 1}\n");
  EXPECT_NE(judged(" --task asked.jsonl" + gates)["results"], judged(" --task asked.jsonl")["results"]);
}

// The recipe of a task's run has the defaults of every method; only what somebody changed is refused.
TEST_F(AdaptStreamSlow, ARecipeThatItWroteIsTaken) {
  ASSERT_EQ(tern(learn("ewc", "first") + " 2>errors").code, 0) << file("errors");
  const std::string recipe = "first/01-log/run/recipe.toml";
  EXPECT_EQ(tern("adapt " + recipe + " --output again 2>errors").code, 0) << file("errors");
  const char* weights = "/02-sums/run/adapter/adapter_model.safetensors";
  EXPECT_EQ(file(std::string("again") + weights), file(std::string("first") + weights));
  EXPECT_EQ(tern("adapt " + recipe + " --output other --energy 0.9 2>errors").code, 2);
  EXPECT_NE(file("errors").find("--energy: says nothing to --method ewc"), std::string::npos) << file("errors");
}

TEST_F(AdaptStreamSlow, RefusesByName) {
  expect_refusal(2, "adapt " + kNovels + " --method inflora --data log.txt --output x",
                 {"--method inflora", "--stream"});
  expect_refusal(2, learn("lora", "x"), {"--method lora", "--stream"});
  expect_refusal(2, learn("seqlora", "x") + " --energy 0.9", {"--energy", "seqlora"});
  expect_refusal(2, learn("seqlora", "x") + " --data log.txt", {"--data", "tasks.toml"});
  expect_refusal(2, learn("inflora", "x") + " --gate-tokens 9", {"--gate-tokens", "inflora"});
  expect_refusal(2, learn("inflora", "x") + " --init gaussian", {"--init gaussian", "inflora"});
  expect_refusal(2, learn("gainlora", "x") + " --init orthogonal", {"--init orthogonal", "gainlora"});
  expect_refusal(2, learn("gainlora", "x") + " --gate-tokens 8 --micro-batch 2", {"--micro-batch 2", "gainlora"});
  expect_refusal(2, learn("gainlora", "x"), {"--gate-tokens 32", "--seq 32"});
  expect_refusal(2, learn("seqlora", "x") + " --eval-every 2", {"--eval-every", "--stream"});
  write("wrong.toml", "[[task]]\nname = \"a\"\ndata = \"log.txt\"\ntests = \"log.txt\"\n");
  expect_refusal(4, "adapt " + kNovels + " --method seqlora --stream wrong.toml --output x", {"wrong.toml", "test"});
}

}  // namespace
}  // namespace tern
