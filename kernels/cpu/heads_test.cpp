#include "kernels/cpu/heads.h"

#include "kernels/kernel_testing.h"
#include "kernels/ref/heads_ref.h"

namespace tern {
namespace {

struct HeadCase {
  HeadShape shape;
  HeadPieces from, to;
  int64_t from_size, to_size;
};

// Pieces of odd widths at odd places, with gaps between them and behind a row; enough rows for several threads last.
std::vector<HeadCase> cases() {
  std::vector<HeadCase> all;
  for (const auto& [rows, heads] : {std::pair<int64_t, int64_t>{1, 1}, {1, 7}, {7, 3}, {31, 5}, {300, 9}})
    for (const int64_t width : {1, 7, 31, 33, 129})
      for (const bool repeated : {false, true}) {  // one piece for every head
        const int64_t from_step = repeated ? 0 : width + 3, to_step = width + 2;
        const int64_t from_row = heads * (width + 3) + 5, to_row = 1 + heads * to_step + 4;
        all.push_back(
            {{rows, heads, width}, {from_row, 5, from_step}, {to_row, 1, to_step}, rows * from_row, rows * to_row});
      }
  all.push_back({{0, 3, 7}, {30, 0, 7}, {30, 0, 7}, 0, 0});
  return all;
}

template <class T>
void expect_pieces(const HeadCase& c) {
  SCOPED_TRACE(testing::Message() << c.shape.rows << " rows of " << c.shape.heads << " x " << c.shape.width << ", step "
                                  << c.from.step);
  const auto x = random_values<T>("x", c.from_size), old = random_values<T>("old", c.to_size);
  const std::vector<double> wide = doubles(x);
  {
    Guarded<T> y(old);
    copy_heads<T>(c.shape, x, c.from, y.span(), c.to);
    std::vector<double> want = doubles(old);  // what stands between the pieces stays
    copy_heads_ref(c.shape, wide, c.from, want, c.to);
    EXPECT_TRUE(is_close(y, want, {}));
  }
  {
    Guarded<T> y(old);
    zero_heads<T>(c.shape, y.span(), c.to);
    std::vector<double> want = doubles(old);
    zero_heads_ref(c.shape, want, c.to);
    EXPECT_TRUE(is_close(y, want, {}));
  }
  Guarded<T> y(old);
  sum_heads<T>(c.shape, x, c.from, y.span(), c.to);
  std::vector<double> want = doubles(old);
  sum_heads_ref(c.shape, wide, c.from, want, c.to);
  // n terms err by n·u·Σ|x| at most
  const double terms = static_cast<double>(c.shape.heads);
  double largest = 0;
  for (const double v : wide) largest = std::max(largest, std::abs(v));
  EXPECT_TRUE(is_close(y, want, {.absolute = terms * terms * largest * kRoundoff<float>, .relative = kRoundoff<T>}));
}

TEST(Heads, PiecesAreCopiedClearedAndAddedAsTheTwinDoes) {
  for (const HeadCase& c : cases()) {
    expect_pieces<float>(c);
    expect_pieces<bf16>(c);
  }
}

// A sum in bf16 that were rounded after each term would stay at 256.
TEST(Heads, ASumIsRoundedOnce) {
  const std::vector<bf16> x(300, to_bf16(1));
  std::vector<bf16> y(1);
  sum_heads<bf16>({1, 300, 1}, x, {300, 0, 1}, y, {1, 0, 0});
  EXPECT_EQ(to_float(y[0]), 300);
}

TEST(Heads, ThreadsChangeNoBit) {
  const HeadCase c{{999, 16, 33}, {600, 3, 36}, {40, 2, 0}, 999 * 600, 999 * 40};
  const auto x = random_values<float>("x", c.from_size);
  std::vector<float> one(static_cast<size_t>(c.to_size)), many = one;
  with_threads(1, [&] { sum_heads<float>(c.shape, x, c.from, one, c.to); });
  with_threads(4, [&] { sum_heads<float>(c.shape, x, c.from, many, c.to); });
  EXPECT_TRUE(same_bits<float>(many, one));
}

}  // namespace
}  // namespace tern
