#include "train/group_advice.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/options.h"
#include "spec/presets.h"
#include "train/inputs.h"
#include "train/ranks_testing.h"
#include "train/settings_ranks.h"
#include "train/tensor_groups.h"

namespace tern {
namespace {

// As a run checks them.
std::string refusal_of_groups(const ModelSpec& spec, const TrainSettings& s) {
  if (s.ranks % (s.tensor * s.context_ranks) != 0) return "ranks";
  if (num_sharers(s) % s.expert_ranks != 0) return "experts";
  try {
    check_ranks(s);
    check_tensor_ranks(spec, s);
    check_context_ranks(spec, s);
    check_expert_ranks(spec, s);
  } catch (const Error& e) { return e.what(); }
  return "";
}

// The groups that an advice names: for each of "choose 2 or 4" these, for "--ranks 8" so many ranks, for "2 and --ranks 2" both.
std::vector<GroupSizes> named_groups(const std::string& advice, const GroupSizes& own, int GroupSizes::*axis) {
  std::vector<GroupSizes> list;
  const bool both = advice.find(" and --ranks ") != std::string::npos;
  for (size_t i = 0; i < advice.size();) {
    const size_t begin = i;
    while (i < advice.size() && std::isdigit(static_cast<unsigned char>(advice[i]))) ++i;
    if (i++ == begin) continue;
    const int n = std::stoi(advice.substr(begin));
    const bool of_ranks = begin >= 8 && advice.substr(begin - 8, 8) == "--ranks ";
    if (both && of_ranks) {
      list.back().ranks = n;
      continue;
    }
    list.push_back(own);
    (of_ranks ? list.back().ranks : list.back().*axis) = n;
  }
  return list;
}

// The settings without the axis, and with the sizes that "leave it out, with --batch 12 and --micro-batch 3" names.
TrainSettings left_out(const TrainSettings& s, const std::string& advice, int GroupSizes::*axis) {
  GroupSizes sizes = group_sizes(s);
  sizes.*axis = 1;
  TrainSettings plain = with_groups(s, sizes);
  const auto read = [&](const char* option, auto& value) {
    if (const size_t at = advice.find(option); at != std::string::npos)
      value =
          static_cast<std::remove_reference_t<decltype(value)>>(std::stoll(advice.substr(at + std::strlen(option))));
  };
  read("--batch ", plain.batch), read("--micro-batch ", plain.micro_batch);
  read("--sum-groups ", plain.sum_order.groups);
  return plain;
}

struct AdviceCounts {
  int refused = 0, named = 0, left_out = 0, none = 0;
};

// Asks for advice on settings that are refused, and holds what it names against the same checks.
void ask(const ModelSpec& spec, const TrainSettings& s, int GroupSizes::*axis, AdviceCounts& counts) {
  if (group_sizes(s).*axis == 1 || refusal_of_groups(spec, s).empty()) return;
  ++counts.refused;
  const std::string advice = group_advice(s, &spec, axis);
  const std::string asked =
      fmt::format("--ranks {} --tensor-parallel {} --context-parallel {} --expert-parallel {} --batch {}: {}", s.ranks,
                  s.tensor, s.context_ranks, s.expert_ranks, s.batch, advice);
  if (advice.starts_with("leave it out")) {
    ++counts.left_out;
    EXPECT_EQ(refusal_of_groups(spec, left_out(s, advice, axis)), "") << asked;
  } else if (advice == "choose other numbers of ranks and groups") {
    ++counts.none;
    GroupSizes plain = group_sizes(s);
    plain.*axis = 1;
    EXPECT_NE(refusal_of_groups(spec, with_groups(s, plain)), "") << asked;
  } else {
    for (const GroupSizes& sizes : named_groups(advice, group_sizes(s), axis)) {
      ++counts.named;
      EXPECT_EQ(refusal_of_groups(spec, with_groups(s, sizes)), "") << asked;
    }
  }
}

TEST(GroupAdvice, WhateverItNamesRuns) {
  const RunInputs inputs(true, 2, 8, 4);
  const TrainSettings tiny = tiny_run(inputs.path, inputs.path + "/text.txt");
  const ModelSpec spec = load_inputs(tiny).spec;
  AdviceCounts counts;
  for (int GroupSizes::*axis : {&GroupSizes::tensor, &GroupSizes::context})
    for (const int ranks : {2, 3, 4, 6, 7, 8})
      for (const int tensor : {1, 2, 3, 4, 6})
        for (const int context : {1, 2, 3})
          for (const int64_t batch : {5, 8, 12})
            for (const bool ring : {false, true}) {
              TrainSettings s = tiny;
              s.seq = 24, s.batch = batch, s.context_ring = ring && context > 1;
              ask(spec, with_groups(s, {ranks, tensor, context}), axis, counts);
            }
  EXPECT_GT(counts.refused, 100);
  EXPECT_GT(counts.named, 100);
  EXPECT_GT(counts.left_out, 0);
  EXPECT_GT(counts.none, 0);
}

TEST(GroupAdvice, WhateverItNamesOfExpertGroupsRuns) {
  const RunInputs inputs(true, 2, 8, 4);
  const ModelSpec spec = *preset_model("mixtral-8x7b");  // 8 experts
  AdviceCounts counts;
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8})
    for (const int experts : {2, 3, 4, 6, 16})
      for (const int context : {1, 2, 3})
        for (const int64_t batch : {5, 8, 12})
          for (const int64_t seq : {24, 25}) {
            TrainSettings s = tiny_run(inputs.path, inputs.path + "/text.txt");
            s.seq = seq, s.batch = batch;
            ask(spec, with_groups(s, {.ranks = ranks, .context = context, .expert = experts}), &GroupSizes::expert,
                counts);
          }
  EXPECT_GT(counts.refused, 100);
  EXPECT_GT(counts.named, 100);
  EXPECT_GT(counts.left_out, 0);
  EXPECT_GT(counts.none, 0);
}

TEST(GroupAdvice, KnowsHeadsRanksAndTheBatch) {
  const RunInputs inputs(true, 2, 4, 4);
  TrainSettings s = tiny_run(inputs.path, inputs.path + "/text.txt");
  const auto advice = [&](int ranks, int tensor, int64_t batch, bool knows_model = true) {
    s.batch = batch;
    const TrainSettings asked = with_groups(s, {.ranks = ranks, .tensor = tensor});
    const ModelSpec spec = load_inputs(asked).spec;
    return group_advice(asked, knows_model ? &spec : nullptr, &GroupSizes::tensor);
  };
  EXPECT_EQ(advice(6, 4, 12), "choose 2, or --ranks 8") << "not 3 or 6: there are 4 heads";
  EXPECT_EQ(advice(6, 4, 12, false), "choose 2, 3 or 6, or --ranks 8");
  EXPECT_EQ(advice(6, 6, 12), "choose 2");
  EXPECT_EQ(advice(6, 6, 8), "choose 4 and --ranks 4") << "three shares of 8 sequences are not equal";
  EXPECT_EQ(advice(6, 4, 5), "choose --ranks 4") << "no two ranks share 5 sequences equally";
  s.fixed_groups = true, s.sum_order.groups = 2;
  EXPECT_EQ(advice(3, 2, 8), "choose --ranks 4");
}

TEST(GroupAdvice, TheNearestLengthIsOneOfTheModel) {
  const RunInputs inputs(true, 2, 4, 4);
  TrainSettings s = tiny_run(inputs.path, inputs.path + "/text.txt");
  s.seq = 6, s.context_ranks = 2, s.context_ring = true;
  const ModelSpec spec = load_inputs(s).spec;
  EXPECT_EQ(nearest_seq(s, spec), 8);
  s.seq = 61, s.context_ranks = 5, s.context_ring = true;
  EXPECT_EQ(nearest_seq(s, spec), 60) << "70 are more than the 64 that the model declares";
}

}  // namespace
}  // namespace tern
