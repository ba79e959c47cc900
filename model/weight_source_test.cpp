#include "model/weight_source.h"

#include "model/model_testing.h"
#include "model/weight_lender_testing.h"

namespace tern {
namespace {

TEST(WeightSource, WeightsThatExistWhileTheyAreLeasedGiveTheBitsOfResidentOnes) {
  for_each_variant([](const std::string& variant, const ModelSpec& spec) {
    SCOPED_TRACE(variant);
    Arena arena;
    const Compute c{arena};
    const std::vector<int32_t> tokens = random_tokens(9, spec.vocab, 1), targets = random_tokens(9, spec.vocab, 2);
    const RopeTable rope = rope_table(spec, 16, 16);
    const Rows rows = make_rows(tokens, {0, 4, 9}, &rope);
    const ModelWeights resident = random_weights(spec, DType::f32, arena, 3);
    CopyLender lender(spec, resident);
    const Tensor want = model_forward(spec, resident, rows, nullptr, c);
    const Tensor got = model_forward(spec, lender, rows, nullptr, c);
    EXPECT_TRUE(same_bits(got, want));
    EXPECT_EQ(head_losses(spec, lender, want, targets, c), head_losses(spec, resident, want, targets, c));
    const std::vector<int32_t> some{0, 8};
    EXPECT_TRUE(same_bits(head_logits(spec, lender, want, some, c), head_logits(spec, resident, want, some, c)));
    EXPECT_EQ(lender.num_leases, static_cast<int>(spec.units.size()) + 1);
    EXPECT_EQ(lender.most_units, 1);
    EXPECT_TRUE(lender.all_released());
  });
}

TEST(WeightSource, AMovedLeaseEndsOnce) {
  const ModelSpec spec = model_spec(tiny_config("llama"));
  Arena arena;
  const ModelWeights resident = random_weights(spec, DType::f32, arena, 3);
  CopyLender lender(spec, resident);
  {
    WeightLease first = WeightSource(lender).acquire(1);
    const WeightLease second = std::move(first);
    EXPECT_TRUE(std::holds_alternative<AttentionWeights>(*second));
    EXPECT_FALSE(lender.all_released());
  }
  EXPECT_TRUE(lender.all_released());
}

}  // namespace
}  // namespace tern
