#include "plan/pinned.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "spec/presets.h"

namespace tern {
namespace {

std::string refusal(const char* text) {
  try {
    parse_pinned(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "";
}

TEST(PinnedAxes, WhatIsToldIsReadAgain) {
  const char* all =
      "tp=8,cp=2,cp-by=ulysses,dp=4,ep=2,etp=1,pp=4,chunks=2,schedule=interleaved,micro-batch=1,micro-batches=16,zero="
      "1,"
      "recompute=full,states=host,activations=device,layers=even";
  EXPECT_EQ(to_string(parse_pinned(all)), all);
  EXPECT_EQ(to_string(parse_pinned(" pp = 4 , tp=8")), "tp=8,pp=4") << "spaces do not matter, the order is ours";
  EXPECT_FALSE(PinnedAxes{}.any());
  EXPECT_TRUE(parse_pinned("zero=0").any());
}

TEST(PinnedAxes, WhatIsNoAxisOrNoValueIsRefused) {
  EXPECT_NE(refusal("tq=8").find("did you mean 'tp'"), std::string::npos) << refusal("tq=8");
  EXPECT_NE(refusal("tp").find("expected AXIS=VALUE"), std::string::npos);
  EXPECT_NE(refusal("").find("expected AXIS=VALUE"), std::string::npos);
  EXPECT_NE(refusal("tp=0").find("a whole number from 1"), std::string::npos);
  EXPECT_NE(refusal("tp=8x").find("tp=8x"), std::string::npos);
  EXPECT_NE(refusal("zero=4").find("from 0 to 3"), std::string::npos);
  EXPECT_NE(refusal("tp=2,tp=4").find("tp is given twice"), std::string::npos);
  EXPECT_NE(refusal("schedule=1f2b").find("did you mean '1f1b'"), std::string::npos) << refusal("schedule=1f2b");
  EXPECT_NE(refusal("layers=uneven").find("expected even"), std::string::npos);
}

TEST(PinnedAxes, AChoiceThatDiffersNamesTheAxisAndBothValues) {
  const ModelSpec spec = *preset_model("llama-2-7b");
  const std::vector<Layer> layers = layers_of(spec);
  OuterChoice c{.mesh = {.tensor = 2, .data = 4}, .num_stages = 4, .micro_batch = 1, .num_micro = 8};
  const auto why = [&](const char* pins) {
    return why_not_pinned(parse_pinned(pins), {.seq = 4096}, c, layers, spec, 8);
  };
  EXPECT_EQ(why("tp=2,dp=4,pp=4,chunks=1,schedule=1f1b,micro-batch=1,micro-batches=8,layers=even"), "");
  EXPECT_EQ(why("tp=4"), "tensor 2: 4 is asked");
  EXPECT_EQ(why("schedule=gpipe"), "schedule 1f1b: gpipe is asked");
  EXPECT_EQ(why("cp-by=ulysses"), "") << "no context to be split";
  c.num_stages = 1;
  EXPECT_EQ(why("schedule=gpipe"), "") << "one stage has every schedule";
  c.num_stages = 5;
  EXPECT_EQ(why("layers=even"), "layers=even: 5 stages × 1 chunks do not divide 32 blocks");
}

TEST(PinnedAxes, EvenStagesShareOutTheBlocksAndTheEndsGoOutside) {
  const ModelSpec spec = *preset_model("llama-2-7b");  // embedding, 32 blocks, head
  const std::vector<Layer> layers = layers_of(spec);
  const std::vector<int> stages = even_stages(spec, layers, 8);
  ASSERT_EQ(stages.size(), layers.size());
  EXPECT_EQ(stages.front(), 0);
  EXPECT_EQ(stages.back(), 7);
  for (size_t u = 1; u + 1 < stages.size(); ++u) EXPECT_EQ(stages[u], static_cast<int>((u - 1) / 4));
  EXPECT_TRUE(even_stages(spec, layers, 5).empty());
  const ModelSpec t5 = *preset_model("t5-large");
  EXPECT_TRUE(even_stages(t5, layers_of(t5), 2).empty()) << "two rows of blocks";
}

}  // namespace
}  // namespace tern
