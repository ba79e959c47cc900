#include "store/row_table.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "store/blocks_testing.h"

namespace tern {
namespace {

TEST(RowTable, ReadsTheRowsThatAreAskedFor) {
  constexpr int64_t kRow = 70, kRows = 40, kBegin = 13;
  std::vector<std::byte> file(kBegin + kRow * kRows);
  for (size_t i = 0; i < file.size(); ++i) file[i] = static_cast<std::byte>(i * 31 + i / 251);
  MemoryBlocks files({file});
  const RowTable table{&files, {0, kBegin, kRow * kRows}, kRow};
  const std::vector<int32_t> ids = {39, 0, 7, 7, 21};
  std::vector<std::byte> got(ids.size() * kRow);
  EXPECT_GE(read_rows(table, ids, got), static_cast<int64_t>(got.size()));
  for (size_t i = 0; i < ids.size(); ++i)
    EXPECT_TRUE(std::equal(got.begin() + static_cast<int64_t>(i) * kRow,
                           got.begin() + static_cast<int64_t>(i + 1) * kRow, file.begin() + kBegin + ids[i] * kRow))
        << i;
  std::vector<std::byte> one(kRow);
  const int32_t beyond = 40;
  EXPECT_THROW(read_rows(table, {&beyond, 1}, one), std::exception);
}

TEST(RowTable, AFileCutShortIsToldFromAnyThread) {
  MemoryBlocks files({std::vector<std::byte>(200)});
  const RowTable table{&files, {0, 0, 64 * 10}, 64};
  const std::vector<int32_t> ids = {0, 1, 9, 2};
  std::vector<std::byte> got(ids.size() * 64);
  EXPECT_THROW(read_rows(table, ids, got), Error);
}

}  // namespace
}  // namespace tern
