// Integer products of coded weights: the twin's bits under every instruction set, whatever stands beside a row.
#include "kernels/cpu/coded_int8.h"

#include <limits>

#include "base/bug.h"
#include "kernels/cpu/code_groups.h"
#include "kernels/cpu/coded_rows_testing.h"
#include "kernels/ref/coded_int8_ref.h"

namespace tern {
namespace {

std::vector<WeightType> types_with_groups() {
  std::vector<WeightType> types;
  for (const WeightTypeRow& row : kWeightTypes)
    if (has_code_groups(row.type)) types.push_back(row.type);
  return types;
}

/// What stands before a row, at `offset`, and beside the matrix.
RowCodebook codebook_of(const CodedRows& rows, int64_t offset) {
  bf16 scale{};
  if (rows.tables) std::memcpy(&scale, rows.bytes + offset, sizeof scale);
  return {rows.tables, to_float(scale)};
}

/// The groups of a row of a case, in our order of rows.
std::vector<CodeGroups> groups_of_row(const CodedCase& c, int64_t row) {
  size_t piece = 0;
  for (; row >= c.pieces[piece].count; ++piece) row -= c.pieces[piece].count;
  const CodedRows& rows = c.pieces[piece];
  if (const int64_t d = rows.head_dim; d > 0) row += row % d % (d / 2) * 2 + row % d / (d / 2) - row % d;
  const WeightTypeRow& type = row_of(rows.type);
  const int64_t row_bytes = stored_bytes(rows.type, 1, c.k);
  std::vector<CodeGroups> groups;
  for (int64_t k = 0; k < c.k; k += kGroupedCodes) {
    const int64_t count = std::min(kGroupedCodes, c.k - k) / type.block_elements * type.block_bytes;
    const uint8_t* at =
        rows.bytes + row * row_bytes + type.row_header_bytes + k / type.block_elements * type.block_bytes;
    code_groups(rows.type, std::as_bytes(std::span(at, static_cast<size_t>(count))), groups.emplace_back(),
                codebook_of(rows, row * row_bytes));
  }
  return groups;
}

/// Fills the scratch of this thread, of which a product must not read what it has not written, with NaN.
void poison_scratch() {
  const int64_t bytes = std::min<int64_t>(thread_scratch_held(), 1 << 20);
  if (bytes > 0) std::memset(thread_scratch(bytes), 0xff, static_cast<size_t>(bytes));
}

template <class T, class Out>
void expect_twins_bits(const CodedCase& c, const std::vector<T>& x, bool add, bool with_bias = true) {
  const auto m = static_cast<int64_t>(x.size()) / c.k;
  const std::vector<T> bias = with_bias ? random_values<T>("bias", c.n) : std::vector<T>{};
  const std::vector<Out> before = random_values<Out>("y", m * c.n);
  std::vector<float> wide;
  for (const T v : x) wide.push_back(to_float(v));
  std::vector<Out> want = before;
  for (int64_t j = 0; j < c.n; ++j) {
    const std::vector<CodeGroups> w = groups_of_row(c, j);
    for (int64_t i = 0; i < m; ++i) {
      const auto at = static_cast<size_t>(i * c.n + j);
      float value = dot_int8_ref(std::span(wide).subspan(static_cast<size_t>(i * c.k), static_cast<size_t>(c.k)), w);
      if (with_bias) value += to_float(bias[static_cast<size_t>(j)]);
      if (add) value = to_float(want[at]) + value;
      if constexpr (std::is_same_v<Out, bf16>)
        want[at] = to_bf16(value);
      else
        want[at] = value;
    }
  }
  for_each_isa([&] {
    Guarded<Out> got(before);
    poison_scratch();
    multiply_coded_int8<T, Out>(x, c.pieces, bias, m, c.n, c.k, add, got.span());
    EXPECT_TRUE(same_bits<Out>(got.values(), want)) << m << " rows, " << name_of(c.pieces[0].type);
    EXPECT_TRUE(got.guards_intact());
  });
  if (add || m > 1) return;
  constexpr size_t kMany = 17;  // the same row so often: a set may multiply many rows in another way
  std::vector<T> many;
  std::vector<Out> wanted;
  for (size_t i = 0; i < kMany; ++i)
    many.insert(many.end(), x.begin(), x.end()), wanted.insert(wanted.end(), want.begin(), want.end());
  for_each_isa([&] {
    Guarded<Out> got(std::vector<Out>(wanted.size()));
    poison_scratch();
    multiply_coded_int8<T, Out>(many, c.pieces, bias, kMany, c.n, c.k, false, got.span());
    EXPECT_TRUE(same_bits<Out>(got.values(), wanted)) << "as one of many rows, " << name_of(c.pieces[0].type);
    EXPECT_TRUE(got.guards_intact());
  });
}

TEST(CodedInt8, GroupsAreTheNumbersOfTheDecoder) {
  ASSERT_FALSE(types_with_groups().empty());
  for (const WeightType type : types_with_groups()) {
    if (table_bytes(type) > 0) continue;  // below
    const std::vector<uint8_t> bytes = sane_blocks(type, 40, kGroupedCodes, 5);
    const std::span rows(bytes);
    const size_t row_bytes = bytes.size() / 40;
    for_each_isa([&] {
      for (size_t r = 0; r < 40; ++r) {
        const auto blocks = std::as_bytes(rows.subspan(r * row_bytes, row_bytes));
        CodeGroups groups;
        code_groups(type, blocks, groups);
        std::vector<float> want(kGroupedCodes), got;
        decode_blocks(type, blocks, want);
        for (size_t i = 0; i < kGroupedCodes; ++i) {
          const float product = groups.scales[i / 16] * static_cast<float>(groups.codes[i]);
          got.push_back(product + groups.leasts[i / 16]);
        }
        for (size_t i = 0; i < kGroupedCodes; ++i) ASSERT_EQ(got[i], want[i]) << name_of(type) << " number " << i;
        for (size_t i = 0; i < 16; i += 2)
          ASSERT_TRUE(groups.by_16 ||
                      (groups.scales[i] == groups.scales[i + 1] && groups.leasts[i] == groups.leasts[i + 1]))
              << name_of(type) << ": a scale for each 16 numbers that by_16 does not tell";
        for (const float least : groups.leasts) ASSERT_TRUE(groups.has_leasts || least == 0) << name_of(type);
      }
    });
  }
}

TEST(CodedInt8, GroupsOfLearnedCodesAreTheNumbersOfTheDecoder) {
  for (const WeightType type : {WeightType::lc4, WeightType::lc3, WeightType::lc2}) {
    CodedCase c{.k = 288};
    c.add(type, 30);
    for_each_isa([&] {
      for (int64_t r = 0; r < c.n; ++r) {
        const std::vector<CodeGroups> groups = groups_of_row(c, r);
        for (int64_t k = 0; k < c.k; ++k) {
          const CodeGroups& g = groups[static_cast<size_t>(k / kGroupedCodes)];
          const auto i = static_cast<size_t>(k % kGroupedCodes);
          ASSERT_EQ(g.scales[i / 16] * static_cast<float>(g.codes[i]), c.dense[static_cast<size_t>(r * c.k + k)])
              << name_of(type) << " row " << r << " number " << k;
        }
      }
    });
  }
}

TEST(CodedInt8, EveryTypeGivesTheTwinsBitsUnderEverySet) {
  for (const WeightType type : types_with_groups()) {
    CodedCase c{.k = 512};
    c.add(type, 67);
    expect_twins_bits<float, float>(c, random_values<float>("x", 2 * c.k), false);
    expect_twins_bits<bf16, bf16>(c, random_values<bf16>("x", c.k), true);
    expect_twins_bits<bf16, float>(c, random_values<bf16>("x", 3 * c.k), false);
    expect_twins_bits<float, float>(c, random_values<float>("x", 18 * c.k), true);
    expect_twins_bits<bf16, bf16>(c, random_values<bf16>("x", 33 * c.k), false);
  }
}

TEST(CodedInt8, AnyRowsThreadsTailsAndPiecesGiveTheSameBits) {
  CodedCase mixed{.k = 256};
  mixed.add(WeightType::q4_k, 48, 8);
  mixed.add(WeightType::q6_k, 1);
  mixed.add(WeightType::q8_0, 60, 10);
  mixed.add(WeightType::lc2, 9);
  CodedCase tail{.k = 288};  // 32 numbers behind a group of 256
  tail.add(WeightType::q4_1, 70);
  tail.add(WeightType::q8_0, 3);
  tail.add(WeightType::lc3, 7);
  CodedCase one{.k = 32};
  one.add(WeightType::q5_0, 1);
  CodedCase learned{.k = 288};  // rows are multiplied by pairs: an odd row ends a piece, a panel of 64 and the matrix
  learned.add(WeightType::lc4, 63);
  learned.add(WeightType::lc3, 1);
  learned.add(WeightType::lc2, 48, 8);
  learned.add(WeightType::lc4, 17);
  for (const int threads : {1, 2})
    with_threads(threads, [&] {
      for (const CodedCase* c : {&mixed, &tail, &one, &learned})
        for (const int64_t m : {1, 2, 3, 8, 9, 63, 64, 65})
          expect_twins_bits<float, float>(*c, random_values<float>("x", m * c->k), m % 2 == 0);
    });
}

// One to seventeen groups of 32: what is left behind whole eights and whole pairs.
TEST(CodedInt8, EveryNumberOfGroupsGivesTheTwinsBits) {
  for (const WeightType type : types_with_groups()) {
    if (row_of(type).block_elements != 32) continue;
    for (int64_t groups = 1; groups <= 17; ++groups) {
      CodedCase c{.k = 32 * groups};
      c.add(type, 3);
      for (const int64_t m : {1, 2, 5, 16})
        expect_twins_bits<float, float>(c, random_values<float>("x", m * c.k), false);
    }
  }
}

// Of more rows than a thread keeps rounded: 64, or fewer of long ones.
TEST(CodedInt8, RowsOfAnyLengthGiveTheSameBits) {
  CodedCase wide{.k = 2336};  // nine groups of 256 and 32 numbers
  wide.add(WeightType::q4_0, 65);
  wide.add(WeightType::lc4, 3);
  wide.add(WeightType::q5_0, 10);
  wide.add(WeightType::lc2, 2);
  wide.add(WeightType::q8_0, 1);
  wide.add(WeightType::q4_1, 64);
  CodedCase longest{.k = 33024};
  longest.add(WeightType::q4_0, 2);
  longest.add(WeightType::q6_k, 1);
  longest.add(WeightType::q2_k, 1);
  CodedCase tall{.k = 64};  // panels of 128 rows, and what is left of pieces
  tall.add(WeightType::lc4, 521);
  tall.add(WeightType::q8_0, 130);
  for (const int threads : {1, 2})
    with_threads(threads, [&] {
      for (const int64_t m : {1, 16, 67, 300})
        expect_twins_bits<float, float>(wide, random_values<float>("x", m * wide.k), false);
      for (const int64_t m : {2, 5, 19, 177})  // 177: more strips than are kept at a time
        expect_twins_bits<bf16, float>(longest, random_values<bf16>("x", m * longest.k), false);
      for (const int64_t m : {15, 33})
        expect_twins_bits<bf16, bf16>(tall, random_values<bf16>("x", m * tall.k), m > 15);
    });
}

TEST(CodedInt8, FewerRowsNeverTakeMore) {
  for_each_isa([] {
    for (const int64_t k : {32, 2048, 5632, 33024}) {
      ThreadBytes before;
      for (int64_t m = 1; m < 2000; m += m < 40 ? 1 : 8) {
        const ThreadBytes now = coded_int8_thread_bytes(m, k);
        EXPECT_GE(now.caller, before.caller) << m << " rows of " << k;
        EXPECT_GE(now.worker, before.worker) << m << " rows of " << k;
        before = now;
      }
    }
  });
}

TEST(CodedInt8, LearnedTablesOfTheLargestNumbersAndBlocksOfZerosAreTheTwinsToo) {
  for (const WeightType type : {WeightType::lc4, WeightType::lc3, WeightType::lc2})
    for (const int table : {127, -127, -128, 0}) {
      CodedCase c{.k = 288};
      c.add(type, 3);
      for (size_t i = 0; i < c.tables[0].size(); ++i)
        c.tables[0][i] = static_cast<int8_t>(table != 0 && i % 3 == 0 ? -127 : table);
      if (table == 0)  // the rows' scales as well
        std::ranges::fill(c.bytes[0], uint8_t{0});
      for (const float x : {3.0f, -3.0f, 0.0f})
        expect_twins_bits<float, float>(c, std::vector<float>(288, x), false, false);
    }
}

TEST(CodedInt8, ExtremesDoNotOverflow) {
  CodedCase c{.k = 96};
  c.add(WeightType::q8_0, 5);
  for (size_t i = 0; i < c.bytes[0].size(); ++i)
    if (i % 34 > 1) c.bytes[0][i] = static_cast<uint8_t>(i % 5 == 0 ? 0x80 : i % 3 ? 0x7f : 0x81);  // −128, 127, −127
  CodedCase unsigned_codes{.k = 512};
  for (const WeightType type : {WeightType::q4_0, WeightType::q4_k, WeightType::q5_k, WeightType::q6_k})
    unsigned_codes.add(type, 2);
  for (std::vector<uint8_t>& bytes : unsigned_codes.bytes)
    for (uint8_t& byte : bytes)
      if (byte != 0) byte = 0x3f;  // scales of about 1.8, codes of 15, 31 and 63 at most
  expect_twins_bits<float, float>(unsigned_codes, std::vector<float>(512, 3), false, false);
  expect_twins_bits<float, float>(unsigned_codes, std::vector<float>(512, -3), false, false);
  CodedCase small{
      .k = 96};  // x's codes times their scale add up to more than a float holds; a type without offsets takes none
  small.add(WeightType::q8_0, 5);
  for (size_t i = 0; i < small.bytes[0].size(); i += 34) small.bytes[0][i] = 0, small.bytes[0][i + 1] = 4;  // 2^-14
  expect_twins_bits<float, float>(small, std::vector<float>(96, 2e37f), false, false);
  std::vector<float> finite(5);
  for_each_isa([&] {
    multiply_coded_int8<float, float>(std::vector<float>(96, 2e37f), small.pieces, {}, 1, 5, 96, false, finite);
    for (const float v : finite) EXPECT_TRUE(std::isfinite(v));
  });
  const auto row = [&](float v) { return std::vector<float>(96, v); };
  expect_twins_bits<float, float>(c, row(-3), false, false);
  expect_twins_bits<float, float>(c, row(0), false, false);
  expect_twins_bits<float, float>(c, row(0x1p-101f), false, false);  // counts as zero
  expect_twins_bits<float, float>(c, row(0x1p-99f), false, false);
  std::vector<float> odd = row(1);
  odd[7] = std::numeric_limits<float>::infinity();
  std::vector<float> y(5);
  for_each_isa([&] {
    multiply_coded_int8<float, float>(odd, c.pieces, {}, 1, 5, 96, false, y);
    for (const float v : y) EXPECT_TRUE(std::isnan(v));
  });
}

// A chain of one group of 32 in each stretch of 256: Q8_0 codes that give `dot`, a scale of x, and one of w that is a power of 2.
struct OneGroup {
  int dot;
  float scale_x;
  uint16_t scale_w;  // as an f16
};
/// The largest of 32 numbers that have this scale.
float largest_of(float scale) {
  float largest = scale * 127.0f;
  for (int step = 0; step < 4 && largest / 127.0f != scale; ++step)
    largest = std::nextafter(largest, largest / 127.0f < scale ? 1e30f : 0.0f);
  EXPECT_EQ(largest / 127.0f, scale);
  return largest;
}
void expect_chain(const std::vector<OneGroup>& groups, float wanted) {
  CodedCase c{.k = kGroupedCodes * static_cast<int64_t>(groups.size())};
  c.add(WeightType::q8_0, 1);
  std::ranges::fill(c.bytes[0], 0);
  std::vector<float> x(static_cast<size_t>(c.k));
  for (size_t s = 0; s < groups.size(); ++s) {
    const OneGroup& g = groups[s];
    x[256 * s] = largest_of(g.scale_x), x[256 * s + 1] = g.scale_x;  // codes 127 and 1
    uint8_t* block = c.bytes[0].data() + 34 * 8 * s;
    std::memcpy(block, &g.scale_w, 2);
    block[2] = static_cast<uint8_t>(g.dot / 127), block[3] = static_cast<uint8_t>(g.dot % 127);
  }
  expect_twins_bits<float, float>(c, x, false, false);
  std::vector<float> y(1);
  for_each_isa([&] {
    multiply_coded_int8<float, float>(x, c.pieces, {}, 1, 1, c.k, false, y);
    EXPECT_EQ(y[0], wanted);
  });
}

// Sums that lie by less than an f64 tells above and below the middle of two numbers: whoever rounds twice is wrong.
TEST(CodedInt8, AChainIsRoundedOnce) {
  constexpr uint16_t kOne = 0x3c00, kTo8 = 0x1c00;                                      // 1 and 2^-8
  const std::vector<OneGroup> above{{1, 1.0f, kOne}, {641, 6700417 * 0x1p-48f, kTo8}};  // 641·6700417 = 2^32 + 1
  const float odd = 1 + 0x1p-23f;
  expect_chain(above, odd);  // 1 + 2^-24·(1 + 2^-32)
  const std::vector<OneGroup> below{
      {1, 1.0f, kOne}, {1, 0x1p-15f, kTo8}, {14329, 599479 * 0x1p-49f, kTo8}};  // 14329·599479 = 2^33 - 1
  expect_chain(below, odd);                                                     // 1 + 2^-23 + 2^-24·(1 - 2^-33)
}

// |Σ w·(x − x')| ≤ Σ|w|·amax/254, of decoded w and rounded x', and what sums in f32 round away.
TEST(CodedInt8, ErrorIsThatOfRoundingTheActivations) {
  CodedCase c{.k = 512};
  c.add(WeightType::q5_k, 40);
  const std::vector<float> x = random_values<float>("x", c.k);
  std::vector<float> y(40);
  multiply_coded_int8<float, float>(x, c.pieces, {}, 1, 40, c.k, false, y);
  for (size_t j = 0; j < 40; ++j) {
    double want = 0, bound = 0, size = 0;
    for (size_t i = 0; i < 512; ++i) {
      double most = 0;
      for (size_t g = i / 32 * 32; g < i / 32 * 32 + 32; ++g) most = std::max(most, std::abs(double{x[g]}));
      const double w = c.dense[j * 512 + i];
      want += w * x[i];
      bound += std::abs(w) * most / 254;
      size += std::abs(w * x[i]);
    }
    EXPECT_LE(std::abs(y[j] - want), bound + 512 * 0x1p-23 * size);
    EXPECT_NE(static_cast<double>(y[j]), want);
  }
}

TEST(CodedInt8, WrongSizesAndTypesAreBugs) {
  CodedCase c{.k = 256};
  c.add(WeightType::q4_k, 4);
  std::vector<float> x(256), y(4);
  EXPECT_THROW((multiply_coded_int8<float, float>(x, c.pieces, {}, 1, 5, 256, false, y)), Bug);
  EXPECT_THROW((multiply_coded_int8<float, float>(x, c.pieces, {}, 1, 4, 128, false, y)), Bug);
  x.resize(kInt8Columns + 256), y.resize(1);
  CodedCase long_row{.k = kInt8Columns + 256};
  long_row.add(WeightType::q4_k, 1);
  EXPECT_THROW((multiply_coded_int8<float, float>(x, long_row.pieces, {}, 1, 1, long_row.k, false, y)), Bug);
  x.resize(256), y.resize(4);
  c.pieces[0].type = WeightType::iq2_xs;
  EXPECT_THROW((multiply_coded_int8<float, float>(x, c.pieces, {}, 1, 4, 256, false, y)), Bug);
}

}  // namespace
}  // namespace tern
