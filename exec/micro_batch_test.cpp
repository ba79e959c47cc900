#include "exec/micro_batch.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

// Tokens are the numbers of their rows, targets those of the next.
MicroBatch numbered(int32_t rows) {
  std::vector<int32_t> tokens, targets;
  for (int32_t i = 0; i < rows; ++i) tokens.push_back(i), targets.push_back(i + 1);
  MicroBatch batch(tokens, {0, 5, rows}, targets, nullptr);
  batch.first_row = 100;
  return batch;
}

TEST(MicroBatch, ARingPartHasItsRowsTargetsPositionsAndNumbers) {
  const MicroBatch whole = numbered(12), part = ring_part(whole, 1, 3);
  EXPECT_EQ(part.tokens, (std::vector<int32_t>{2, 3, 8, 9}));
  EXPECT_EQ(part.targets, (std::vector<int32_t>{3, 4, 9, 10}));
  EXPECT_EQ(part.rows.positions, (std::vector<int32_t>{2, 3, 3, 4}));
  EXPECT_EQ(part.rows.starts, whole.rows.starts);
  EXPECT_EQ(part.rows.tokens.data(), part.tokens.data());
  EXPECT_EQ(part.first_row, 102);
  EXPECT_EQ(part.gap, 4);  // rows 2, 3 and then 8, 9
  EXPECT_EQ(ring_part(whole, 2, 3).gap, 0);
  EXPECT_EQ(ring_part(whole, 2, 3).tokens, (std::vector<int32_t>{4, 5, 6, 7}));
}

TEST(MicroBatch, AContiguousPartHasNoGap) {
  const MicroBatch part = context_part(numbered(12), 1, 3);
  EXPECT_EQ(part.tokens, (std::vector<int32_t>{4, 5, 6, 7}));
  EXPECT_EQ(part.rows.positions, (std::vector<int32_t>{4, 0, 1, 2}));
  EXPECT_EQ(part.first_row, 104);
  EXPECT_EQ(part.gap, 0);
}

}  // namespace
}  // namespace tern
