#include "base/weight_type.h"

#include <gtest/gtest.h>

#include <set>

#include "base/bug.h"

namespace tern {
namespace {

TEST(WeightType, ARowIsFoundByItsTypeItsNameAndItsNumber) {
  std::set<uint32_t> numbers;
  for (const WeightTypeRow& row : kWeightTypes) {
    EXPECT_EQ(&row_of(row.type), &row) << row.name;
    EXPECT_EQ(weight_type_from_name(row.name), row.type) << row.name;
    EXPECT_TRUE(row.gguf == kNotInGguf || numbers.insert(row.gguf).second) << row.name;
  }
  EXPECT_FALSE(weight_type_from_name("Q9_9"));
}

TEST(WeightType, BytesAreWholeBlocksOfEachRow) {
  EXPECT_EQ(stored_bytes(WeightType::f32, 3, 7), 84);
  EXPECT_EQ(stored_bytes(WeightType::q4_0, 5, 64), 5 * 2 * 18);
  EXPECT_EQ(stored_bytes(WeightType::q6_k, 4096, 4096), int64_t{4096} * 16 * 210);
  EXPECT_EQ(stored_bytes(WeightType::u3, 1, 64), 8 + 64 * 3 / 8);
  EXPECT_EQ(stored_bytes(WeightType::lc3, 5, 64), 5 * (2 + 2 * (1 + 32 * 3 / 8)));
  EXPECT_EQ(table_bytes(WeightType::lc3), 4 * 8);
  EXPECT_EQ(table_bytes(WeightType::u3), 0);
  EXPECT_EQ(stored_bytes(WeightType::q4_k, 0, 256), 0);
  EXPECT_THROW(stored_bytes(WeightType::q4_k, 1, 255), Bug);
  EXPECT_FALSE(fills_blocks(WeightType::iq3_s, 128));
}

TEST(WeightType, BitsPerWeightCountTheScales) {
  EXPECT_EQ(bits_per_weight(WeightType::bf16), 16);
  EXPECT_EQ(bits_per_weight(WeightType::q8_0), 8.5);
  EXPECT_EQ(bits_per_weight(WeightType::q4_0), 4.5);
  EXPECT_EQ(bits_per_weight(WeightType::q2_k), 2.625);
  EXPECT_EQ(bits_per_weight(WeightType::iq2_xxs), 2.0625);
  EXPECT_EQ(bits_per_weight(WeightType::mxfp4), 4.25);
  EXPECT_EQ(bits_per_weight(WeightType::nf4), 4.5);
  EXPECT_EQ(bits_per_weight(WeightType::nf4_1), 5);
  EXPECT_EQ(bits_per_weight(WeightType::lc2), 2.25);
}

}  // namespace
}  // namespace tern
