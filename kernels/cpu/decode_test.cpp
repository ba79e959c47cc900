// Decoders of weight types: the plain formula of tern's own types, bitsandbytes for NF4, and one pattern of bits under all
// instruction sets. GGUF's types: model/weight_types_test.cpp.
#include "kernels/cpu/decode.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <random>

#include "base/bug.h"
#include "base/source_dir_testing.h"
#include "kernels/cpu/coded_rows_testing.h"
#include "kernels/kernel_testing.h"

namespace tern {
namespace {

using Blocks = std::vector<std::byte>;

Blocks random_blocks(WeightType type, int64_t count, uint64_t salt) {
  std::mt19937_64 random(test_seed() + 131 * static_cast<uint64_t>(type) + salt);
  Blocks blocks(static_cast<size_t>(stored_bytes(type, count, row_of(type).block_elements)));
  for (std::byte& b : blocks) b = static_cast<std::byte>(random());
  return blocks;
}

/// The same numbers; NaN is NaN whatever its bits, and −0 is not 0.
testing::AssertionResult same_numbers(std::span<const float> got, std::span<const float> want) {
  if (got.size() != want.size()) return testing::AssertionFailure() << got.size() << " numbers, want " << want.size();
  for (size_t i = 0; i < got.size(); ++i)
    if (std::isnan(got[i]) ? !std::isnan(want[i]) : std::memcmp(&got[i], &want[i], sizeof(float)) != 0)
      return testing::AssertionFailure() << "[" << i << "] " << got[i] << ", want " << want[i];
  return testing::AssertionSuccess();
}

std::vector<float> decoded(WeightType type, const Blocks& blocks) {
  const WeightTypeRow& row = row_of(type);
  Guarded<float> out(blocks.size() / static_cast<size_t>(row.block_bytes) * static_cast<size_t>(row.block_elements));
  decode_blocks(type, blocks, out.span());
  EXPECT_TRUE(out.guards_intact()) << row.name;
  return {out.values().begin(), out.values().end()};
}

// Those that need no tables beside themselves.
std::vector<WeightTypeRow> types_of_blocks() {
  std::vector<WeightTypeRow> types;
  for (const WeightTypeRow& row : kWeightTypes)
    if (row.levels == 0) types.push_back(row);
  return types;
}

TEST(Decode, EverySetGivesThePortableSetsBitsOfAnyBytes) {
  for (const WeightTypeRow& row : types_of_blocks())
    for (const int64_t count : {1, 7, 100}) {
      const Blocks blocks = random_blocks(row.type, count, static_cast<uint64_t>(count));
      std::vector<float> want;  // portable comes first
      for_each_isa([&] {
        const std::vector<float> got = decoded(row.type, blocks);
        if (active_isa() == Isa::portable) want = got;
        EXPECT_TRUE(same_numbers(got, want)) << row.name << ", " << count << " blocks";
      });
    }
}

TEST(Decode, BlocksLieAnywhereAndEachIsDecodedByItself) {
  for (const WeightTypeRow& row : types_of_blocks()) {
    const Blocks blocks = random_blocks(row.type, 5, 9);
    const std::vector<float> whole = decoded(row.type, blocks);
    const auto bytes = static_cast<size_t>(row.block_bytes), elements = static_cast<size_t>(row.block_elements);
    for (size_t n = 0; n < 5; ++n) {
      Blocks moved(blocks.begin() + static_cast<ptrdiff_t>(n * bytes) - (n > 0), blocks.end());
      moved.resize(bytes + (n > 0));
      std::vector<float> one(elements);
      decode_blocks(row.type, std::span(moved).subspan(n > 0), one);
      EXPECT_TRUE(same_numbers(one, std::span(whole).subspan(n * elements, elements))) << row.name << " " << n;
    }
    decode_blocks(row.type, {}, {});
    std::vector<float> less(elements * 5 - 1);
    EXPECT_THROW(decode_blocks(row.type, blocks, less), Bug) << row.name;
  }
}

// Code i of a block whose codes are bits in the order that decode_uniform_isa.cpp states.
uint32_t code_of(WeightType type, const uint8_t* b, size_t i) {
  if (type == WeightType::u4) return b[i % 32] >> (i / 32 * 4) & 15u;
  const uint32_t low = b[i % 16] >> (i / 16 * 2) & 3u;
  return type == WeightType::u2 ? low : low | (b[16 + i % 8] >> (i / 8) & 1u) << 2;
}

TEST(Decode, UniformTypesAreScaleTimesCodePlusOffset) {
  for (const WeightType type : {WeightType::u4, WeightType::u3, WeightType::u2}) {
    Blocks blocks = random_blocks(type, 40, 3);
    std::vector<float> want;
    for (size_t n = 0; n < 40; ++n) {
      auto* b = reinterpret_cast<uint8_t*>(blocks.data()) + n * static_cast<size_t>(row_of(type).block_bytes);
      const auto scale = static_cast<float>(random_normal({test_seed(), 1}, n));
      const auto offset = static_cast<float>(10 * random_normal({test_seed(), 2}, n));
      std::memcpy(b, &scale, 4), std::memcpy(b + 4, &offset, 4);
      for (size_t i = 0; i < 64; ++i) {
        const auto product = static_cast<float>(double{scale} * code_of(type, b + 8, i));  // exact in f64, rounded once
        want.push_back(static_cast<float>(double{product} + double{offset}));
      }
    }
    for_each_isa([&] { EXPECT_TRUE(same_numbers(decoded(type, blocks), want)) << name_of(type); });
  }
}

// Code n of a block's codes, as kernels/cpu/learned_codes.h has them.
uint32_t learned_code(WeightType type, const uint8_t* q, int n) {
  if (type == WeightType::lc4) return q[n % 16] >> (n / 16 * 4) & 15u;
  const uint32_t low = q[n % 8] >> (n / 8 * 2) & 3u;
  return type == WeightType::lc2 ? low : low | (q[8 + n / 8] >> (n % 8) & 1u) << 2;
}

TEST(Decode, LearnedTypesAreRowTimesBlockTimesTableOfAnyBytesUnderEverySet) {
  for (const WeightType type : {WeightType::lc4, WeightType::lc3, WeightType::lc2}) {
    const int64_t rows = 21, k = 416,
                  row_bytes = stored_bytes(type, 1, k);  // not a multiple of what is decoded at a time
    std::vector<uint8_t> bytes(static_cast<size_t>(rows * row_bytes) + 1);
    std::mt19937_64 random(test_seed() + static_cast<uint64_t>(type));
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
    const std::vector<int8_t> tables = random_tables(type, 1);
    const int64_t levels = row_of(type).levels;
    const CodedRows piece{type, bytes.data() + 1, rows, 0, tables.data()};
    std::vector<float> want;
    for (int64_t r = 0; r < rows; ++r) {
      const uint8_t* at = piece.bytes + r * row_bytes;
      bf16 scale;
      std::memcpy(&scale, at, 2);
      for (const uint8_t* b = at + 2; b < at + row_bytes; b += row_of(type).block_bytes)
        for (int n = 0; n < 32; ++n) {
          const auto block = static_cast<float>(std::exp2(-(b[0] >> 2 & 31) / 8.0));
          const float s = (b[0] >> 7 ? -1.0f : 1.0f) * (to_float(scale) * block);
          want.push_back(
              s * static_cast<float>(tables[static_cast<size_t>((b[0] & 3) * levels + learned_code(type, b + 1, n))]));
        }
    }
    for_each_isa([&] { EXPECT_TRUE(same_numbers(numbers_of(piece, k), want)) << name_of(type); });
    std::vector<float> y(32);
    EXPECT_THROW(
        decode_blocks(type, std::as_bytes(std::span(bytes).first(static_cast<size_t>(row_of(type).block_bytes))), y),
        Bug);
  }
}

template <class T>
std::vector<T> golden_file(const std::string& name) {
  std::ifstream file(source_dir() + "/tests/golden/weight_types/" + name, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

TEST(Decode, Nf4IsWhatBitsandbytesDecodes) {
  const Blocks blocks = golden_file<std::byte>("nf4.blocks");
  const std::vector<float> want = golden_file<float>("nf4.f32");
  ASSERT_EQ(static_cast<int64_t>(blocks.size()), stored_bytes(WeightType::nf4, 16, 64));
  for_each_isa([&] { EXPECT_TRUE(same_numbers(decoded(WeightType::nf4, blocks), want)); });
}

// Scales and offsets of any bits among them.
TEST(Decode, Nf4WithOffsetsIsNf4PlusTheOffsetRoundedOnce) {
  constexpr size_t count = 300;
  const Blocks blocks = random_blocks(WeightType::nf4_1, int64_t{count}, 5);
  Blocks plain;
  std::vector<float> offsets(count);
  for (size_t n = 0; n < count; ++n) {
    const std::byte* const b = blocks.data() + n * 40;
    plain.insert(plain.end(), b, b + 4);
    std::memcpy(&offsets[n], b + 4, 4);
    plain.insert(plain.end(), b + 8, b + 40);
  }
  std::vector<float> want = decoded(WeightType::nf4, plain);
  for (size_t i = 0; i < want.size(); ++i) want[i] += offsets[i / 64];
  for_each_isa([&] { EXPECT_TRUE(same_numbers(decoded(WeightType::nf4_1, blocks), want)); });
}

}  // namespace
}  // namespace tern
