#include "spec/owner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace tern {
namespace {

constexpr int64_t kB = kUpdateBlock;

std::vector<ParameterForm> forms_of(const std::vector<int64_t>& matrices, int64_t vector) {
  std::vector<ParameterForm> forms;
  for (const int64_t n : matrices) forms.push_back({ParameterKind::matrix, 1, n});
  forms.push_back({ParameterKind::vector, 1, vector});
  return forms;
}

TEST(Owner, EveryElementHasOneAndRunsDifferByABlock) {
  const std::vector<std::vector<int64_t>> units{
      {}, {1}, {kB}, {kB + 1, 7}, {3 * kB, 2 * kB - 1, 5}, {7, 9, 11}, {10 * kB + 3, 1, kB, kB / 2}};
  for (const auto& elements : units)
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const std::vector<ParameterForm> forms = forms_of(elements, 5);
      std::vector<int64_t> next(forms.size(), 0), blocks(static_cast<size_t>(ranks));
      for (const OwnedInterval& o : deal(forms, UpdateRule::adamw, ranks)) {
        EXPECT_EQ(o.elements.begin, next[o.parameter]) << "in order, without gaps";
        EXPECT_EQ(o.elements.begin % kB, 0);
        EXPECT_TRUE(o.elements.end % kB == 0 || o.elements.end == forms[o.parameter].elements());
        next[o.parameter] = o.elements.end;
        if (o.parameter + 1 == std::ssize(forms))
          EXPECT_EQ(o.rank, ranks - 1) << "the vector";
        else
          blocks[o.rank] += (o.elements.size() + kB - 1) / kB;
      }
      for (size_t p = 0; p < forms.size(); ++p) EXPECT_EQ(next[p], forms[p].elements());
      EXPECT_LE(*std::ranges::max_element(blocks) - *std::ranges::min_element(blocks), 1);
    }
}

TEST(Owner, WhatARuleTakesWholeHasOneOwner) {
  const std::vector<ParameterForm> forms = forms_of({3 * kB, 5 * kB, kB}, 9);
  for (int ranks = 1; ranks <= 6; ++ranks) {
    std::vector<int> times(forms.size());
    for (const OwnedInterval& o : deal(forms, UpdateRule::muon, ranks)) {
      ++times[o.parameter];
      EXPECT_EQ(o.elements, (Interval{0, forms[o.parameter].elements()}));
    }
    EXPECT_EQ(times, std::vector<int>(forms.size(), 1));
  }
}

// What plans price is what the deal gives, whatever the order in which the parameters come.
TEST(Owner, TheWidestShareIsTheDealsWidest) {
  for (const UpdateRule rule : kUpdateRules)
    for (const int ranks : {1, 2, 3, 8, 40}) {
      const UpdateConfig config = update_config(rule);
      std::vector<CountedForm> counted{{{ParameterKind::table, 70, 4096}},
                                       {{ParameterKind::matrix, 512, 512}, 2},
                                       {{ParameterKind::matrix, 100, 1000}, 3, true},
                                       {{ParameterKind::vector, 1, 600}}};
      std::vector<ParameterForm> forms{{ParameterKind::vector, 1, 600},
                                       {ParameterKind::matrix, 512, 512},
                                       {ParameterKind::table, 70, 4096},
                                       {ParameterKind::matrix, 512, 512}};
      std::vector<int64_t> elements(static_cast<size_t>(ranks)), bytes(elements);
      for (const OwnedInterval& o : deal(forms, rule, ranks)) {
        elements[o.rank] += o.elements.size();
        bytes[o.rank] += state_bytes(config, DType::bf16, forms[o.parameter], o.elements);
      }
      const WidestShare widest = widest_share(counted, false, config, DType::bf16, ranks);
      EXPECT_EQ(widest.elements, *std::ranges::max_element(elements)) << name_of(rule) << ranks;
      EXPECT_EQ(widest.state_bytes, *std::ranges::max_element(bytes)) << name_of(rule) << ranks;
    }
}

}  // namespace
}  // namespace tern
