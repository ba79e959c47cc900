// Products of coded weights: bit for bit those of the decoded weights, for any rows, pieces and threads.
#include "kernels/cpu/coded_matmul.h"

#include "base/bug.h"
#include "kernels/cpu/coded_rows_testing.h"
#include "kernels/cpu/matmul.h"
#include "kernels/kernel_testing.h"

namespace tern {
namespace {

template <class T>
std::vector<T> as(const std::vector<float>& x) {
  std::vector<T> y;
  for (const float v : x) y.push_back(rounded<T>(v));
  return y;
}

template <class T, class Out>
void expect_bits_of_decoded(const CodedCase& c, int64_t m, bool add) {
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
void expect_bits_on_every_set(const CodedCase& c, int64_t m, bool add) {
  for_each_isa([&] {
    if (multiplies_coded(DTypeOf<T>::value)) expect_bits_of_decoded<T, Out>(c, m, add);
  });
}

template <class T>
void expect_input_gradient_bits(const CodedCase& c, int64_t m, bool add) {
  const std::vector<T> dy = random_values<T>("dy", m * c.n), w = as<T>(c.dense);
  const std::vector<T> before = random_values<T>("dx", m * c.k);
  for_each_isa([&] {
    if (!multiplies_coded(DTypeOf<T>::value)) return;
    Guarded<T> want(before), got(before);
    multiply_nn<T>(dy, w, m, c.n, c.k, add, want.span());
    multiply_coded_nn<T>(dy, c.pieces, m, c.n, c.k, add, got.span());
    EXPECT_TRUE(same_bits(got.values(), want.values())) << m << " rows, " << name_of(c.pieces[0].type);
    EXPECT_TRUE(got.guards_intact());
  });
}

TEST(CodedMatmul, InputGradientsOfEveryTypeAreThoseOfItsDecodedRows) {
  for (const WeightTypeRow& row : kWeightTypes) {
    CodedCase c{.k = 512};
    c.add(row.type, 67);
    expect_input_gradient_bits<float>(c, 3, false);
    expect_input_gradient_bits<bf16>(c, 2, true);
  }
}

TEST(CodedMatmul, InputGradientsOfAnyRowsThreadsAndTailsHaveTheSameBits) {
  for (const int threads : {1, 2})
    with_threads(threads, [] {
      for (const auto& [type, n, k] : {std::tuple{WeightType::q4_0, int64_t{131}, int64_t{288}},
                                       {WeightType::q6_k, 1, 512},
                                       {WeightType::lc3, 257, 352},
                                       {WeightType::u3, 7, 320},
                                       {WeightType::f16, 70, 61}}) {
        CodedCase c{.k = k};
        c.add(type, n);
        for (int64_t m = 1; m <= 65; m += m < 9 ? 1 : 7) {
          expect_input_gradient_bits<float>(c, m, m % 2 == 0);
          expect_input_gradient_bits<bf16>(c, m, m % 2 == 1);
        }
        if (type == WeightType::f16) expect_input_gradient_bits<float>(c, 200, false);  // more than share one decoding
      }
    });
}

TEST(CodedMatmul, InputGradientsOfMixedPiecesAndInterleavedHeadsAreOneMatrix) {
  CodedCase c{.k = 256};
  c.add(WeightType::q4_k, 48, 8);
  c.add(WeightType::q6_k, 1);
  c.add(WeightType::f32, 20, 10);
  c.add(WeightType::q8_0, 60);
  c.add(WeightType::lc2, 3);
  c.add(WeightType::u4, 5);
  for (const int64_t m : {1, 5}) {
    expect_input_gradient_bits<float>(c, m, false);
    expect_input_gradient_bits<bf16>(c, m, false);
  }
}

TEST(CodedMatmul, EveryTypeGivesTheBitsOfItsDecodedRows) {
  for (const WeightTypeRow& row : kWeightTypes) {
    CodedCase c{.k = 512};
    c.add(row.type, 67);
    expect_bits_on_every_set<float, float>(c, 3, false);
    expect_bits_on_every_set<bf16, bf16>(c, 1, false);
    expect_bits_on_every_set<bf16, float>(c, 2, true);
  }
}

TEST(CodedMatmul, EveryTypeAtEveryNumberOfRowsGivesTheSameBits) {
  for (const WeightTypeRow& row : kWeightTypes) {
    CodedCase c{.k = 256};
    c.add(row.type, 9);
    for (int64_t m = 1; m <= 65; ++m)
      with_threads(m % 2 == 0 ? 1 : 2, [&] {
        expect_bits_on_every_set<float, float>(c, m, false);
        expect_bits_on_every_set<bf16, bf16>(c, m, false);
      });
  }
}

TEST(CodedMatmul, AnyRowsThreadsAndTailsGiveTheSameBits) {
  for (const int threads : {1, 2})
    with_threads(threads, [] {
      for (const auto& [type, k] : {std::pair{WeightType::q4_0, int64_t{288}},
                                    {WeightType::q6_k, int64_t{512}},
                                    {WeightType::lc3, int64_t{352}},
                                    {WeightType::f16, int64_t{61}}}) {
        CodedCase c{.k = k};
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
  CodedCase c{.k = 256};
  c.add(WeightType::q4_k, 48, 8);
  c.add(WeightType::q6_k, 1);
  c.add(WeightType::f32, 20, 10);
  c.add(WeightType::q8_0, 60);
  c.add(WeightType::lc2, 3);
  c.add(WeightType::lc4, 5);
  for (const int64_t m : {1, 5}) {
    expect_bits_on_every_set<float, float>(c, m, false);
    expect_bits_on_every_set<bf16, bf16>(c, m, false);
  }
}

TEST(CodedMatmul, RowsOfATableAreGatheredDecoded) {
  CodedCase c{.k = 320};
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
  CodedCase c{.k = 256};
  c.add(WeightType::q4_k, 4);
  std::vector<float> x(256), y(4);
  EXPECT_THROW((multiply_coded<float, float>(x, c.pieces, {}, 1, 5, 256, false, y)), Bug);
  EXPECT_THROW((multiply_coded<float, float>(x, c.pieces, {}, 1, 4, 128, false, y)), Bug);
  EXPECT_THROW((multiply_coded_nn<float>(x, c.pieces, 1, 5, 256, false, y)), Bug);
  CodedCase learned{.k = 256};
  learned.add(WeightType::lc4, 4);
  learned.pieces[0].tables = nullptr;
  EXPECT_THROW((multiply_coded<float, float>(x, learned.pieces, {}, 1, 4, 256, false, y)), Bug);
  c.pieces[0].head_dim = 3;
  EXPECT_THROW((multiply_coded<float, float>(x, c.pieces, {}, 1, 4, 256, false, y)), Bug);
}

}  // namespace
}  // namespace tern
