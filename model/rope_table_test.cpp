#include "model/rope_table.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "base/source_dir_testing.h"
#include "formats/hf/config.h"
#include "formats/safetensors/safetensors.h"

namespace tern {
namespace {

// dev/golden/models.py: per case a tensor, the frequencies and last the attention factor; its config in the metadata.
TEST(RopeTable, FrequenciesAreThoseOfTransformersForEveryRule) {
  const Safetensors golden(fmt::format("{}/tests/golden/rope/rope.safetensors", source_dir()));
  ASSERT_GE(golden.size(), 11u);
  for (size_t c = 0; c < golden.size(); ++c) {
    const std::string name(golden[c].name);
    SCOPED_TRACE(name);
    const RopeSpec spec = model_spec(parse_hf_config(golden.metadata().at(name), "golden")).rope;
    const RopeFrequencies got =
        rope_frequencies(spec, std::stoll(golden.metadata().at(fmt::format("{}, declared context", name))));
    std::vector<double> want(static_cast<size_t>(golden[c].num_elements()));
    std::memcpy(want.data(), golden[c].bytes.data(), golden[c].bytes.size());
    ASSERT_EQ(got.per_position.size() + 1, want.size());
    // The reference computes in f32: a power, a few products and quotients.
    for (size_t i = 0; i + 1 < want.size(); ++i) EXPECT_NEAR(got.per_position[i], want[i], 2e-6 * want[i]) << i;
    EXPECT_NEAR(got.attention_factor, want.back(), 1e-12);
  }
}

TEST(RopeTable, HoldsTurnsByPositionTimesFrequencyAndTheFactor) {
  RopeSpec spec;
  spec.kind = RopeKind::yarn;
  spec.rotary_dim = 8, spec.factor = 4, spec.original_context = 16, spec.attention_factor = 1.5;
  const RopeFrequencies f = rope_frequencies(spec, 64);
  const RopeTable t = rope_table(spec, 5, 64);
  ASSERT_EQ(t.cos.size(), 20u);
  for (size_t p = 0; p < 5; ++p)
    for (size_t i = 0; i < 4; ++i) {
      const double angle = static_cast<double>(p) * f.per_position[i];
      EXPECT_DOUBLE_EQ(t.cos64[p * 4 + i], 1.5 * std::cos(angle));
      EXPECT_DOUBLE_EQ(t.sin64[p * 4 + i], 1.5 * std::sin(angle));
      EXPECT_EQ(t.sin[p * 4 + i], static_cast<float>(t.sin64[p * 4 + i]));
    }
}

// A sequence keeps its table for life: the declared context alone decides, not how many positions were asked for.
TEST(RopeTable, DynamicAndLongFormsChooseByTheDeclaredContext) {
  RopeSpec spec;
  spec.kind = RopeKind::dynamic;
  spec.rotary_dim = 8, spec.factor = 2, spec.original_context = 16;
  EXPECT_EQ(rope_table(spec, 4, 64).cos64, rope_table(spec, 4, 64).cos64);
  EXPECT_NE(rope_table(spec, 4, 64).cos64, rope_table(spec, 4, 16).cos64);
  EXPECT_EQ(rope_table(spec, 4, 8).cos64, rope_table(spec, 4, 16).cos64);
}

}  // namespace
}  // namespace tern
