// What a run says of its update before its first step.
#include "train/update_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "spec/presets.h"

namespace tern {
namespace {

ModelSpec small_model() { return decoder_of({.vocab = 96, .width = 32, .layers = 2, .heads = 4, .context = 64}); }

std::string notes(const TrainSettings& s) { return fmt::format("{}", fmt::join(update_notes(small_model(), s), "\n")); }

TEST(UpdateNotes, APlainRunSaysNothing) { EXPECT_EQ(notes({}), ""); }

TEST(UpdateNotes, NameTheAggregatorAndWhoAttacks) {
  TrainSettings s;
  s.ranks = 8;
  s.robust = RobustConfig{.aggregator = Aggregator::krum,
                          .byzantine = 2,
                          .mixing = Mixing::nearest,
                          .local_momentum = 0.9,
                          .attack = Attack::bit_flip,
                          .attackers = 2};
  EXPECT_EQ(notes(s),
            "aggregator: krum of 8 ranks, of whom 2 may send anything; mix nearest; local momentum 0.9; ranks 6 to 7 "
            "attack: bit-flip");
  EXPECT_EQ(update_json(s)["aggregator"]["rule"], "krum");
  EXPECT_EQ(update_json(s)["aggregator"]["attack"], "bit-flip");
  EXPECT_EQ(update_json(s)["aggregator"]["attackers"], 2);
  s.robust = RobustConfig{.attack = Attack::alie, .attackers = 1};
  EXPECT_EQ(notes(s), "aggregator: mean of 8 ranks, all of whom it believes; rank 7 attacks: alie");
}

TEST(UpdateNotes, NameTheAsynchronousRuleAndItsWorkers) {
  TrainSettings s;
  s.async = AsyncSettings{.rule = {.rule = AsyncRule::ormo_da, .momentum = 0.5, .workers = 4}, .replay = "order.txt"};
  EXPECT_EQ(notes(s), "asynchronous: rule ormo-da, 4 workers, momentum 0.5, in the order of order.txt");
  EXPECT_EQ(update_json(s)["async"]["rule"], "ormo-da");
  EXPECT_EQ(update_json(s)["optimizer"]["rule"], "adamw");
  EXPECT_EQ(update_json(s)["optimizer"]["beta1"], 0.9);
}

TEST(UpdateNotes, SayWhatRareAveragesAreOnOneRank) {
  TrainSettings s;
  s.ranks = 4;
  s.outer = OuterConfig{.every = 10, .rate = 0.7, .momentum = 0.9, .codec = OuterCodec::int8};
  EXPECT_EQ(notes(s), "rare averages: diloco of 4 ranks, every 10 steps, codec int8");
  EXPECT_EQ(update_json(s)["outer"]["kind"], "diloco");
  s.ranks = 1;
  EXPECT_NE(notes(s).find("nobody to average with: what remains is the outer step"), std::string::npos) << notes(s);
  s.outer = OuterConfig{.every = 10, .nesterov = false};
  EXPECT_NE(notes(s).find("local-sgd of 1 rank, every 10 steps; one rank has nobody to average with, so this changes"),
            std::string::npos)
      << notes(s);
}

// Width 32, and 128 in the feed-forward layer: every matrix has 32 as its shorter side.
TEST(UpdateNotes, CountMatricesInWhichAProjectionSavesNothing) {
  TrainSettings s;
  s.optimizer = update_config(UpdateRule::galore_adamw);
  int64_t matrices = 0;
  for (const Unit& unit : small_model().units)
    for (const CountedForm& f : trained_forms(unit, {}))
      if (f.form.kind == ParameterKind::matrix) matrices += f.count;
  EXPECT_TRUE(notes(s).starts_with(
      fmt::format("--projection-rank 128: the shorter side of {} of {} matrices is no longer", matrices, matrices)))
      << notes(s);
  EXPECT_TRUE(notes(s).ends_with("choose a rank well below 32")) << notes(s);
  for (const auto& [rank, says] : {std::pair{32.0, true}, {31.0, false}}) {
    s.optimizer = update_config(UpdateRule::galore_sgd, {{"projection-rank", rank}});
    EXPECT_EQ(!notes(s).empty(), says) << rank;
  }
  s.optimizer = update_config(UpdateRule::soap);
  EXPECT_EQ(notes(s), "") << "its bases are no projection";
}

}  // namespace
}  // namespace tern
