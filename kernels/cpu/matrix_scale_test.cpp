#include "kernels/cpu/matrix_scale.h"

#include "kernels/cpu/equalize.h"
#include "kernels/kernel_testing.h"
#include "kernels/ref/equalize_ref.h"

namespace tern {
namespace {

const std::pair<int64_t, int64_t> kScaledSizes[] = {{1, 1}, {1, 33}, {31, 1}, {7, 65}, {130, 9}, {300, 200}};

TEST(MatrixScale, SquaresAndScalesOfRowsAndColumns) {
  for (const auto& [rows, columns] : kScaledSizes) {
    const auto x = random_values<float>("x", rows * columns);
    const auto at = [&, width = columns](int64_t r, int64_t c) {
      return static_cast<double>(x[static_cast<size_t>(r * width + c)]);
    };
    std::vector<double> of_rows(static_cast<size_t>(rows)), of_columns(static_cast<size_t>(columns));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        of_rows[static_cast<size_t>(r)] += at(r, c) * at(r, c);
        of_columns[static_cast<size_t>(c)] += at(r, c) * at(r, c);
      }
    Guarded<float> got_rows(of_rows.size()), got_columns(of_columns.size()), by_row(x), by_column(x);
    row_squares<float>(x, rows, columns, got_rows.span());
    column_squares<float>(x, rows, columns, got_columns.span());
    EXPECT_TRUE(is_close(got_rows, of_rows, {.relative = 2 * kRoundoff<float>}));
    EXPECT_TRUE(is_close(got_columns, of_columns, {.relative = 2 * kRoundoff<float>}));
    scale_rows<float>(by_row.span(), rows, columns, got_rows.values());
    scale_columns<float>(by_column.span(), rows, columns, got_columns.values());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        const auto i = static_cast<size_t>(r * columns + c);
        ASSERT_EQ(by_row.values()[i], x[i] * got_rows.values()[static_cast<size_t>(r)]);
        ASSERT_EQ(by_column.values()[i], x[i] * got_columns.values()[static_cast<size_t>(c)]);
      }
    EXPECT_TRUE(by_row.guards_intact() && by_column.guards_intact());
  }
}

// Rows or columns of very different sizes: that side is the uneven one, and has a root mean square of 1 afterwards.
TEST(Equalize, TheUnevenSideHasUnitRootMeanSquareAndTheTwinAgrees) {
  for (const bool rows_uneven : {true, false})
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{9, 14}, {40, 6}, {200, 300}}) {
      std::vector<float> x = random_values<float>("x", rows * columns);
      for (int64_t i = 0; i < rows * columns; ++i)
        x[static_cast<size_t>(i)] *= static_cast<float>(1 + (rows_uneven ? i / columns : i % columns) % 5);
      Guarded<float> got(x), temporary(static_cast<size_t>(rows + columns));
      std::vector<double> want = doubles(x);
      equalize_uneven_side(got.span(), rows, columns, temporary.span());
      equalize_uneven_side_ref(want, rows, columns);
      EXPECT_TRUE(is_close(got, want, {.absolute = 1e-6, .relative = 1e-6}));
      EXPECT_TRUE(temporary.guards_intact());
      const int64_t lines = rows_uneven ? rows : columns, length = rows_uneven ? columns : rows;
      for (int64_t k = 0; k < lines; ++k) {
        double squares = 0;
        for (int64_t i = 0; i < length; ++i) {
          const int64_t place = rows_uneven ? k * columns + i : i * columns + k;
          squares += std::pow(static_cast<double>(got.values()[static_cast<size_t>(place)]), 2);
        }
        ASSERT_NEAR(std::sqrt(squares / static_cast<double>(length)), 1, 1e-6) << k;
      }
    }
}

TEST(Equalize, TablesRowsThenColumnsAndZerosStay) {
  constexpr int64_t kRows = 11, kColumns = 6;
  std::vector<float> x = random_values<float>("x", kRows * kColumns);
  for (int64_t c = 0; c < kColumns; ++c) x[static_cast<size_t>(3 * kColumns + c)] = 0;  // a token that did not come
  Guarded<float> got(x), temporary(kRows + kColumns);
  std::vector<double> want = doubles(x);
  equalize_rows_then_columns(got.span(), kRows, kColumns, temporary.span());
  equalize_rows_then_columns_ref(want, kRows, kColumns);
  EXPECT_TRUE(is_close(got, want, {.absolute = 1e-6, .relative = 1e-6}));
  EXPECT_EQ(got.values()[3 * kColumns], 0);
}

}  // namespace
}  // namespace tern
