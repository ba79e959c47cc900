#include "base/kv_type.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

// (d + 2) / (2d) of bf16's bytes in 8 bits, (d/2 + 2) / (2d) in 4.
TEST(KvType, RowsHaveTheBytesOfTheirClosedForm) {
  for (const int64_t d : {2, 64, 128}) {
    EXPECT_EQ(kv_row_bytes(KvType::f64, d), 8 * d);
    EXPECT_EQ(kv_row_bytes(KvType::f32, d), 4 * d);
    EXPECT_EQ(kv_row_bytes(KvType::bf16, d), 2 * d);
    EXPECT_EQ(kv_row_bytes(KvType::q8, d), d + 2);
    EXPECT_EQ(kv_row_bytes(KvType::q4, d), d / 2 + 2);
  }
  EXPECT_EQ(kv_row_bytes(KvType::q4, 7), 6) << "an odd number has half a byte to spare";
}

TEST(KvType, NamesAreThoseOfTheOption) {
  for (const KvType t : {KvType::f64, KvType::f32, KvType::bf16, KvType::q8, KvType::q4})
    EXPECT_EQ(kv_type_from_name(name_of(t)), t);
  EXPECT_FALSE(kv_type_from_name("q6"));
  for (const DType t : {DType::f64, DType::f32, DType::bf16}) EXPECT_EQ(dtype_of(kv_type_of(t)), t);
  EXPECT_TRUE(is_coded(KvType::q8) && is_coded(KvType::q4) && !is_coded(KvType::bf16));
}

}  // namespace
}  // namespace tern
