#include "apps/given_options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "apps/options.h"
#include "apps/plan_inference.h"
#include "apps/plan_question.h"
#include "base/error.h"
#include "base/io.h"

namespace tern {
namespace {

// The option as it may be typed.
std::vector<std::string> typed(const OptionSpec& spec) {
  const std::string flag = "--" + std::string(spec.name);
  switch (spec.type) {
    case OptionType::flag:
      return {flag};
    case OptionType::toggle:
      return {flag, "off"};
    case OptionType::choice:
      return {flag, std::string(spec.choices.front())};
    case OptionType::integer:
    case OptionType::real:
    case OptionType::count:
    case OptionType::bytes:
      return {flag, "2"};
    case OptionType::seconds:
      return {flag, "9s"};
    case OptionType::path: {
      const std::string file = testing::TempDir() + "tern-given-options";  // one that a length can be read from
      write_file_atomically(real_io(), file, std::string_view("8\n"));
      return {flag, file};
    }
    default:
      return {flag, "some"};
  }
}

template <class Ask>
std::string refusal(std::vector<std::string> words, const OptionSpec& spec, const Environment& env, const Ask& ask) {
  const std::vector<std::string> more = typed(spec);
  if (env.empty() && std::find(words.begin(), words.end(), more.front()) == words.end())
    words.insert(words.end(), more.begin(), more.end());
  try {
    ask(resolve_options(tern_options(), "plan", words, env));
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage) << e.what();
    return e.what();
  }
  return "";
}

// Of every option in the table: heeded, or refused by name.
TEST(GivenOptions, InferenceHeedsOrRefusesEachOptionOfPlan) {
  const std::set<std::string_view> heeded{
      "hardware",   "nodes",      "inference", "prompt-tokens", "max-tokens",     "users",
      "ttft",       "tpot",       "dtype",     "kv-dtype",      "weight-dtype",   "json",
      "max-tensor", "max-stages", "offload",   "emit",          "prompt-lengths", "output-lengths"};
  const auto ask = [](const Options& o) { inference_job(o, false); };
  size_t seen = 0;
  for (const OptionSpec* spec : options_of(tern_options(), "plan")) {
    const std::string said = refusal({"gpt2", "--inference", "--hardware", "h100"}, *spec, {}, ask);
    if (heeded.contains(spec->name)) {
      EXPECT_EQ(said, "") << spec->name;
      ++seen;
    } else {
      EXPECT_NE(said.find("--" + std::string(spec->name)), std::string::npos) << spec->name << ": " << said;
    }
  }
  EXPECT_EQ(seen, heeded.size());
}

TEST(GivenOptions, CheckHeedsOrRefusesEachOptionOfTraining) {
  const std::set<std::string_view> refused{"output",       "certify", "effort",  "emit-output", "tokens",
                                           "mtbf",         "html",    "picture", "explain",     "checkpoint-time",
                                           "restart-time", "pareto",  "details"};
  const std::set<std::string_view> serving{"inference", "prompt-tokens",  "max-tokens",    "users",
                                           "ttft",      "tpot",           "kv-dtype",      "weight-dtype",
                                           "kv-place",  "prompt-lengths", "output-lengths"};
  const std::vector<std::string> words{"gpt2", "--check", "plan.json", "--hardware", "h100", "--seq", "8"};
  for (const OptionSpec* spec : options_of(tern_options(), "plan")) {
    const std::string said = refusal(words, *spec, {}, refuse_beside_check);
    if (refused.contains(spec->name) || serving.contains(spec->name))
      EXPECT_NE(said.find("--" + std::string(spec->name) + " does not go with --check"), std::string::npos) << said;
    else
      EXPECT_EQ(said, "") << spec->name;
  }
}

// What stands in the environment is for all commands.
TEST(GivenOptions, TheEnvironmentIsNotRefused) {
  const auto ask = [](const Options& o) { inference_job(o, false); };
  const OptionSpec none{};
  const std::vector<std::string> words{"gpt2", "--inference", "--hardware", "h100"};
  EXPECT_EQ(refusal(words, none, {{"TERN_THREADS", "2"}}, ask), "");
}

TEST(GivenOptions, ServingLimitsReachTheJobAndOffloadIsAllOrNone) {
  const auto job = [](std::vector<std::string> more, bool engine) {
    more.insert(more.begin(), {"gpt2", "--inference", "--hardware", "h100"});
    return inference_job(resolve_options(tern_options(), "plan", more, {}), engine);
  };
  EXPECT_EQ(job({"--max-tensor", "2", "--max-stages", "3"}, false).most_tensor, 2);
  EXPECT_EQ(job({"--max-tensor", "2", "--max-stages", "3"}, false).most_stages, 3);
  EXPECT_TRUE(job({}, false).spill) << "unless given: all";
  EXPECT_TRUE(job({"--offload", "all"}, false).spill);
  EXPECT_FALSE(job({"--offload", "none"}, false).spill);
  EXPECT_FALSE(job({}, true).spill) << "tern's own engine keeps all in memory";
  EXPECT_FALSE(job({"--offload", "none"}, true).spill);
  EXPECT_THROW(job({"--offload", "all"}, true), Error);
  for (const char* training : {"states", "activations"}) EXPECT_THROW(job({"--offload", training}, false), Error);
  EXPECT_THROW(job({"--emit-output", "x.sh"}, false), Error);
  EXPECT_FALSE(job({"--kv-place", "disk"}, true).spill) << "whole layers, of which the job knows nothing";
  EXPECT_THROW(job({"--kv-place", "disk"}, false), Error) << "of tern's own engine";
  EXPECT_THROW(job({"--kv-place", "disk", "--emit", "vllm"}, true), Error);
}

}  // namespace
}  // namespace tern
