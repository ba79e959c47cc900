#include "apps/restart_ranks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "plan/plan_file.h"

namespace tern {
namespace {

int unit_of(std::vector<std::string> words, const Environment& environment = {}) {
  words.insert(words.begin(), {"MODEL", "--dry-run"});
  return rank_unit_of(words, 8, environment).ranks;
}

TEST(RestartRanks, HalfWhereThatIsAMultipleOfTheUnit) {
  EXPECT_EQ(ranks_after_loss(4, 2, 1), 2);
  EXPECT_EQ(ranks_after_loss(4, 3, 1), 4);
  EXPECT_EQ(ranks_after_loss(3, 1, 1), 3);
  EXPECT_EQ(ranks_after_loss(4, 2, 4), 4);
  EXPECT_EQ(ranks_after_loss(8, 2, 4), 4);
  EXPECT_EQ(ranks_after_loss(12, 2, 4), 12);
}

TEST(RestartRanks, GroupsAndRanksOfACommandAreItsUnit) {
  EXPECT_EQ(unit_of({}), 1);
  EXPECT_EQ(rank_unit_of({"MODEL", "--dry-run"}, 8, {}).why, "");
  EXPECT_EQ(unit_of({"--tensor-parallel", "4"}), 4);
  EXPECT_EQ(unit_of({"--tensor-parallel", "2", "--context-parallel", "3"}), 6);
  EXPECT_EQ(unit_of({"--context-parallel", "2", "--expert-parallel", "4"}), 4);
  EXPECT_EQ(rank_unit_of({"MODEL", "--context-parallel", "2", "--expert-parallel", "4"}, 8, {}).per_share, 2);
  EXPECT_EQ(unit_of({}, {{"TERN_TENSOR_PARALLEL", "2"}}), 2);
  EXPECT_EQ(unit_of({"--ranks", "4"}), 4);
  EXPECT_EQ(unit_of({"--zero", "1"}), 1);
  EXPECT_EQ(unit_of({"--zero", "2"}), 8);
  EXPECT_EQ(unit_of({}, {{"TERN_RANKS", "4"}}), 1);
  EXPECT_EQ(unit_of({"--no-such-option"}), 8) << "no rule is known, which is not to have none";
  EXPECT_NE(rank_unit_of({"MODEL", "--no-such-option"}, 8, {}).why.find("no-such-option"), std::string::npos);
}

TEST(RestartRanks, APlanHasAllOfItsRanks) {
  const std::string path = testing::TempDir() + "tern-restart-plan-" + std::to_string(::getpid()) + ".json";
  Plan p{.model = "small", .hardware = "here", .node = "this", .parameters = 1000};
  p.job = {.batch = 24, .seq = 16, .dtype = DType::bf16, .optimizer = UpdateRule::sgd};
  p.choice = {.micro_batch = 2, .num_micro = 3};
  p.choice.mesh.data = 4;
  p.layers = {{.first = 0, .count = 5, .strategy = {}}};
  p.ranks.resize(1);
  p.step_ps = 5'000'000'000;
  std::ofstream(path) << plan_json(p);
  const RankUnit unit = rank_unit_of({"MODEL", "--dry-run", "--plan", path}, 4, {});
  EXPECT_EQ(unit.ranks, 4);
  EXPECT_EQ(unit.why, "the plan is of 4");
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace tern
