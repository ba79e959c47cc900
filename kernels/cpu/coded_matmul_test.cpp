// Products of coded weights: bit for bit those of the decoded weights, for any rows, pieces and threads.
#include "kernels/cpu/coded_matmul.h"

#include <algorithm>
#include <random>

#include "base/bug.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/matmul.h"
#include "kernels/kernel_testing.h"

namespace tern {
namespace {

/// Blocks whose numbers are of a usual size, a dozen different ones: random bytes may hold scales that are huge, or none.
std::vector<uint8_t> sane_blocks(WeightType type, int64_t rows, int64_t k, uint64_t salt) {
  constexpr size_t kDifferent = 12;
  std::mt19937_64 random(test_seed() + 17 * static_cast<uint64_t>(type) + salt);
  const auto block = static_cast<size_t>(row_of(type).block_bytes);
  std::vector<uint8_t> different(kDifferent * block), bytes(static_cast<size_t>(stored_bytes(type, rows, k)));
  std::vector<float> numbers(static_cast<size_t>(row_of(type).block_elements));
  for (size_t i = 0; i < kDifferent; ++i)
    for (bool sane = false; !sane;) {
      const std::span one = std::span(different).subspan(i * block, block);
      for (uint8_t& b : one) b = static_cast<uint8_t>(random());
      decode_blocks(type, std::as_bytes(one), numbers);
      sane = std::ranges::all_of(numbers, [](float x) { return std::abs(x) < 1e4f; });
    }
  for (size_t at = 0; at < bytes.size(); at += block)
    std::memcpy(bytes.data() + at, different.data() + random() % kDifferent * block, block);
  return bytes;
}

struct Case {
  std::vector<CodedRows> pieces;
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<float> dense;  // (n, k), decoded, our order
  int64_t n = 0, k;

  void add(WeightType type, int64_t rows, int64_t head_dim = 0) {
    bytes.push_back(sane_blocks(type, rows, k, bytes.size()));
    const CodedRows piece{type, bytes.back().data(), rows, head_dim};
    std::vector<float> numbers(static_cast<size_t>(rows * k));
    decode_blocks(type, std::as_bytes(std::span(bytes.back())), numbers);
    for (int64_t r = 0; r < rows; ++r) {
      int64_t from = r;
      if (head_dim > 0) {  // pairs of the file, apart by half a head here
        const int64_t in = r % head_dim, half = head_dim / 2;
        from = r - in + 2 * (in % half) + in / half;
      }
      dense.insert(dense.end(), numbers.begin() + from * k, numbers.begin() + (from + 1) * k);
    }
    pieces.push_back(piece);
    n += rows;
  }
};

template <class T>
std::vector<T> as(const std::vector<float>& x) {
  std::vector<T> y;
  for (const float v : x) y.push_back(rounded<T>(v));
  return y;
}

template <class T, class Out>
void expect_bits_of_decoded(const Case& c, int64_t m, bool add) {
  const std::vector<T> x = random_values<T>("x", m * c.k), bias = random_values<T>("bias", c.n), w = as<T>(c.dense);
  const std::vector<Out> before = random_values<Out>("y", m * c.n);
  std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(DTypeOf<T>::value, c.n, c.k)));
  pack_weight<T>(std::span<const T>(w), c.n, c.k, packed);
  Guarded<Out> want(before), got(before);
  multiply_exact<T, Out>(x, packed, bias, m, c.n, c.k, add, want.span());
  multiply_coded<T, Out>(x, c.pieces, bias, m, c.n, c.k, add, got.span());
  EXPECT_TRUE(same_bits(got.values(), want.values())) << m << " rows, " << name_of(c.pieces[0].type);
  EXPECT_TRUE(got.guards_intact());
}

template <class T, class Out>
void expect_bits_on_every_set(const Case& c, int64_t m, bool add) {
  for_each_isa([&] {
    if (multiplies_coded(DTypeOf<T>::value)) expect_bits_of_decoded<T, Out>(c, m, add);
  });
}

TEST(CodedMatmul, EveryTypeGivesTheBitsOfItsDecodedRows) {
  for (const WeightTypeRow& row : kWeightTypes) {
    Case c{.k = 512};
    c.add(row.type, 67);
    expect_bits_on_every_set<float, float>(c, 3, false);
    expect_bits_on_every_set<bf16, bf16>(c, 1, false);
    expect_bits_on_every_set<bf16, float>(c, 2, true);
  }
}

TEST(CodedMatmul, AnyRowsThreadsAndTailsGiveTheSameBits) {
  for (const int threads : {1, 2})
    with_threads(threads, [] {
      for (const auto& [type, k] : {std::pair{WeightType::q4_0, int64_t{288}},
                                    {WeightType::q6_k, int64_t{512}},
                                    {WeightType::f16, int64_t{61}}}) {
        Case c{.k = k};
        c.add(type, 70);
        for (int64_t m = 1; m <= 65; m += m < 9 ? 1 : 7) {
          expect_bits_on_every_set<float, float>(c, m, m % 2 == 0);
          expect_bits_on_every_set<bf16, bf16>(c, m, m % 2 == 1);
        }
        if (type == WeightType::f16)
          expect_bits_on_every_set<float, float>(c, 401, false);  // more than share one decoding
      }
    });
}

TEST(CodedMatmul, PiecesOfMixedTypesAndInterleavedHeadsAreOneMatrix) {
  Case c{.k = 256};
  c.add(WeightType::q4_k, 48, 8);
  c.add(WeightType::q6_k, 1);
  c.add(WeightType::f32, 20, 10);
  c.add(WeightType::q8_0, 60);
  for (const int64_t m : {1, 5}) {
    expect_bits_on_every_set<float, float>(c, m, false);
    expect_bits_on_every_set<bf16, bf16>(c, m, false);
  }
}

TEST(CodedMatmul, RowsOfATableAreGatheredDecoded) {
  Case c{.k = 320};
  c.add(WeightType::q5_1, 40, 4);
  const std::vector<int32_t> ids = {39, 0, 7, 7, 2};
  for_each_isa([&] {
    Guarded<float> got(ids.size() * 320);
    Guarded<bf16> narrow(ids.size() * 320);
    gather_coded_rows<float>(c.pieces[0], 320, ids, got.span());
    gather_coded_rows<bf16>(c.pieces[0], 320, ids, narrow.span());
    std::vector<float> want;
    for (const int32_t id : ids) want.insert(want.end(), c.dense.begin() + id * 320, c.dense.begin() + (id + 1) * 320);
    EXPECT_TRUE(same_bits<float>(got.values(), want));
    EXPECT_TRUE(same_bits<bf16>(narrow.values(), as<bf16>(want)));
    EXPECT_TRUE(got.guards_intact() && narrow.guards_intact());
  });
  std::vector<float> y(320);
  EXPECT_THROW(gather_coded_rows<float>(c.pieces[0], 320, std::vector<int32_t>{40}, y), Bug);
}

TEST(CodedMatmul, WrongSizesAreBugs) {
  Case c{.k = 256};
  c.add(WeightType::q4_k, 4);
  std::vector<float> x(256), y(4);
  EXPECT_THROW((multiply_coded<float, float>(x, c.pieces, {}, 1, 5, 256, false, y)), Bug);
  EXPECT_THROW((multiply_coded<float, float>(x, c.pieces, {}, 1, 4, 128, false, y)), Bug);
  c.pieces[0].head_dim = 3;
  EXPECT_THROW((multiply_coded<float, float>(x, c.pieces, {}, 1, 4, 256, false, y)), Bug);
}

}  // namespace
}  // namespace tern
