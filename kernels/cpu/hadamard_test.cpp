// The turn of heads against the matrix written out, there and back, and what 4 bits make of turned rows.
#include "kernels/cpu/hadamard.h"

#include <bit>

#include "base/threads_testing.h"
#include "kernels/cpu/kv_rows.h"
#include "kernels/kernel_testing.h"

namespace tern {
namespace {

constexpr int64_t kHeadWidths[] = {1, 2, 7, 12, 33, 64, 80, 96, 128, 256};

// (±1/√b) by the parity of common bits, with the signs of the columns.
std::vector<double> turned_by_matrix(const std::vector<double>& x, int64_t width) {
  const int64_t b = hadamard_block(width);
  std::vector<double> y(x.size(), 0.0);
  for (size_t i = 0; i < x.size(); ++i)
    for (int64_t j = 0; j < b; ++j) {
      const size_t begin = i / static_cast<size_t>(b) * static_cast<size_t>(b), row = i - begin;
      const double entry = std::popcount(row & static_cast<size_t>(j)) % 2 == 0 ? 1 : -1;
      y[i] += entry * static_cast<double>(b == 1 ? 1.0f : hadamard_sign(j)) * x[begin + static_cast<size_t>(j)] /
              std::sqrt(static_cast<double>(b));
    }
  return y;
}

template <class T>
std::vector<T> turned(std::vector<T> x, int64_t width, bool inverse) {
  hadamard_turn(x.data(), 1, static_cast<int64_t>(x.size()), static_cast<int64_t>(x.size()) / width, width, inverse);
  return x;
}

TEST(Hadamard, IsTheMatrixAndItsInverseIsTheTranspose) {
  for (const int64_t width : kHeadWidths) {
    const auto x = random_values<double>("x", 3 * width), y = random_values<double>("y", 3 * width);
    const std::vector<double> want = turned_by_matrix(x, width), got = turned(x, width, false);
    double ax_y = 0, x_aty = 0;
    const std::vector<double> back = turned(got, width, true), aty = turned(y, width, true);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], 1e-13) << width << ", " << i;
      EXPECT_NEAR(back[i], x[i], 1e-13) << width << ", " << i;
      ax_y += got[i] * y[i], x_aty += x[i] * aty[i];
    }
    EXPECT_NEAR(ax_y, x_aty, 1e-12) << width;
  }
}

TEST(Hadamard, NarrowTypesRoundOnceOrLittle) {
  for (const int64_t width : kHeadWidths) {
    const auto x = random_values<float>("x", 2 * width);
    const auto half = random_values<bf16>("x", 2 * width);
    const std::vector<float> got = turned(x, width, false);
    const std::vector<bf16> got_half = turned(half, width, false);
    std::vector<float> half_as_floats(half.size());
    for (size_t i = 0; i < half.size(); ++i) half_as_floats[i] = to_float(half[i]);
    const std::vector<double> want = turned_by_matrix(doubles(x), width);
    const std::vector<float> wide = turned(half_as_floats, width, false);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(value_of(got[i]), want[i], 1e-6 * std::sqrt(static_cast<double>(width))) << width;
      EXPECT_EQ(got_half[i].bits, to_bf16(wide[i]).bits) << width;
    }
  }
}

// Rows with a stride, a different number of them, other threads: the bits of a row alone.
TEST(Hadamard, EveryRowHasTheBitsOfItsOwn) {
  constexpr int64_t kRows = 70, kHeads = 6, kWidth = 96, kStride = kHeads * kWidth + 5;
  const auto x = random_values<float>("x", kRows * kStride);
  for (const int threads : {1, 2, 3})
    with_threads(threads, [&] {
      auto all = x;
      hadamard_turn(all.data(), kRows, kStride, kHeads, kWidth, false);
      for (int64_t r = 0; r < kRows; ++r) {
        std::vector<float> own(x.begin() + r * kStride, x.begin() + (r + 1) * kStride);
        hadamard_turn(own.data(), 1, kStride, kHeads, kWidth, false);
        EXPECT_TRUE(std::equal(own.begin(), own.end(), all.begin() + r * kStride)) << r;
        for (int64_t i = kHeads * kWidth; i < kStride; ++i)  // what is no head stays
          EXPECT_EQ(own[static_cast<size_t>(i)], x[static_cast<size_t>(r * kStride + i)]);
      }
    });
}

// A few numbers of a head that are far larger than the others, as keys have them: 4 bits lose several times less of it when turned. A
// head of equal numbers is not gathered into one (which the signs are for).
TEST(Hadamard, FourBitsLoseLessOfTurnedRows) {
  constexpr int64_t kWidth = 64;
  const auto error = [&](const std::vector<float>& x, bool turn) {
    std::vector<float> y = turn ? turned(x, kWidth, false) : x;
    std::vector<uint8_t> row(static_cast<size_t>(kv_row_bytes(KvType::q4, kWidth)));
    write_kv_row(KvType::q4, y.data(), kWidth, row.data());
    read_kv_row(KvType::q4, row.data(), kWidth, y.data());
    if (turn) y = turned(y, kWidth, true);
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += std::pow(value_of(y[i]) - value_of(x[i]), 2);
    return sum;
  };
  auto x = random_values<float>("x", kWidth);
  x[3] *= 12, x[40] *= 9;
  EXPECT_LT(error(x, true), 0.5 * error(x, false));
  std::vector<float> most(kWidth);
  for (int64_t i = 0; i < kWidth; ++i) most[static_cast<size_t>(i)] = 1;
  const std::vector<float> spread = turned(most, kWidth, false);
  double largest = 0;
  for (const float v : spread) largest = std::max(largest, std::abs(value_of(v)));
  EXPECT_LT(largest, 5.0);  // of 8, where all came together
}

}  // namespace
}  // namespace tern
