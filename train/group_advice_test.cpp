#include "train/group_advice.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/options.h"
#include "train/inputs.h"
#include "train/ranks_testing.h"
#include "train/settings_ranks.h"
#include "train/tensor_groups.h"

namespace tern {
namespace {

// As a run checks them.
std::string refusal_of_groups(const ModelSpec& spec, const TrainSettings& s) {
  if (s.ranks % (s.tensor * s.context_ranks) != 0) return "ranks";
  try {
    check_ranks(s);
    check_tensor_ranks(spec, s);
    check_context_ranks(spec, s);
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

TEST(GroupAdvice, WhateverItNamesRuns) {
  const RunInputs inputs(true, 2, 8, 4);
  const ModelSpec spec = load_inputs(tiny_run(inputs.path, inputs.path + "/text.txt")).spec;
  int refused = 0, named = 0;
  for (int GroupSizes::*axis : {&GroupSizes::tensor, &GroupSizes::context})
    for (const int ranks : {2, 3, 4, 6, 7, 8})
      for (const int tensor : {1, 2, 3, 4, 6})
        for (const int context : {1, 2, 3})
          for (const int64_t batch : {5, 8, 12})
            for (const bool ring : {false, true}) {
              TrainSettings s = tiny_run(inputs.path, inputs.path + "/text.txt");
              s.seq = 24, s.batch = batch, s.context_ring = ring && context > 1;
              s = with_groups(s, {ranks, tensor, context});
              if ((s.*(axis == &GroupSizes::tensor ? &TrainSettings::tensor : &TrainSettings::context_ranks)) == 1)
                continue;
              if (refusal_of_groups(spec, s).empty()) continue;
              ++refused;
              const std::string advice = group_advice(s, &spec, axis);
              for (const GroupSizes& sizes : named_groups(advice, group_sizes(s), axis)) {
                if (advice.starts_with("leave it out")) continue;
                ++named;
                EXPECT_EQ(refusal_of_groups(spec, with_groups(s, sizes)), "")
                    << fmt::format("--ranks {} --tensor-parallel {} --context-parallel {} --batch {}: {}", ranks,
                                   tensor, context, batch, advice);
              }
            }
  EXPECT_GT(refused, 100);
  EXPECT_GT(named, 100);
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
