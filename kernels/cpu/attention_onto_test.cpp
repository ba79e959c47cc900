// Keys that come block by block give what all keys at once give: against attention_forward and attention_backward in doubles.
#include "kernels/cpu/attention_onto.h"

#include <limits>

#include "kernels/attention_testing.h"
#include "kernels/cpu/tile_attention.h"
#include "kernels/ref/attention_onto_ref.h"

namespace tern {
namespace {

// The keys of all sequences in blocks, in an order that is not theirs: each with the queries from its first key on.
std::vector<std::vector<AttentionPiece>> blocks_of(const std::vector<int64_t>& starts) {
  std::vector<std::vector<AttentionPiece>> blocks;
  for (const auto& [first, end] : {std::pair<int64_t, int64_t>{40, 105}, {0, 7}, {105, 1000}, {7, 40}}) {
    std::vector<AttentionPiece>& pieces = blocks.emplace_back();
    for (size_t s = 0; s + 1 < starts.size(); ++s) {
      const int64_t length = starts[s + 1] - starts[s], count = std::min(end, length) - first;
      if (count <= 0) continue;
      if (first > 0 && length - first > 2)  // some queries of the block itself, then the others with those behind
        pieces.push_back({starts[s] + first, 2, starts[s] + first, count, 0});
      const int64_t skipped = first > 0 && length - first > 2 ? 2 : 0;
      pieces.push_back({starts[s] + first + skipped, length - first - skipped, starts[s] + first, count, skipped});
    }
  }
  return blocks;
}

// One key in one piece of a call, one query likewise.
std::vector<std::vector<AttentionPiece>> one_by_one(const std::vector<std::vector<AttentionPiece>>& calls) {
  std::vector<std::vector<AttentionPiece>> alone;
  for (const auto& pieces : calls)
    for (const AttentionPiece& p : pieces) alone.push_back({p});
  return alone;
}

template <class T>
struct Wanted {
  std::vector<double> out, lse, dq, dk, dv;
  explicit Wanted(const AttentionCase<T>& c) {
    Reference forward = reference_forward(c);
    out = forward.out, lse = forward.lse;
    dq.resize(c.q.size(), 0), dk.resize(c.k.size(), 0), dv.resize(c.v.size(), 0);
    const auto q = doubles(c.q), k = doubles(c.k), v = doubles(c.v), dout = doubles(c.dout);
    attention_backward_ref(c.shape, kStarts, q.data(), k.data(), v.data(), out.data(), dout.data(), lse, dq.data(),
                           dk.data(), dv.data());
  }
};

// Of the norm, but at least of that of elements of a tenth: with a window of one key scores have no gradient.
double apart(std::span<const double> got, std::span<const double> want) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    difference += (got[i] - want[i]) * (got[i] - want[i]), norm += want[i] * want[i];
  }
  return std::sqrt(difference / std::max(norm, 0.01 * static_cast<double>(want.size())));
}

template <class T>
void fold(const AttentionShape& s, std::span<const AttentionPiece> pieces, const AttentionInputs<T>& x,
          std::vector<AttentionSum<T>>& out, std::vector<AttentionSum<T>>& lse) {
  if constexpr (std::is_same_v<T, double>)
    attention_onto_ref(s, pieces, x.q, x.k, x.v, out.data(), lse);
  else
    attention_onto<T>(s, pieces, x.q, x.k, x.v, out.data(), lse);
}
template <class T>
void add_gradients(const AttentionShape& s, std::span<const AttentionPiece> pieces, const AttentionInputs<T>& x,
                   std::vector<AttentionSum<T>>& dq, std::vector<AttentionSum<T>>& dk,
                   std::vector<AttentionSum<T>>& dv) {
  if constexpr (std::is_same_v<T, double>) {
    attention_queries_onto_ref(s, pieces, x, dq.data());
    attention_keys_onto_ref(s, pieces, x, dk.data(), dv.data());
  } else {
    attention_queries_onto<T>(s, pieces, x, dq.data());
    attention_keys_onto<T>(s, pieces, x, dk.data(), dv.data());
  }
}

// dq has the rows of out; gaps hold NaN on both sides.
template <class T>
void expect_folds(const AttentionShape& shape, double forward_bound, double backward_bound) {
  using Sum = AttentionSum<T>;
  SCOPED_TRACE(testing::Message() << shape.heads << " heads of " << shape.head_dim << ", window " << shape.window);
  const AttentionCase<T> c(shape);
  const Wanted<T> want(c);
  const auto calls = one_by_one(blocks_of(kStarts));
  std::vector<Sum> out(want.out.begin(), want.out.end());
  for (Sum& x : out) x = std::isnan(x) ? x : Sum{0};
  std::vector<Sum> lse(want.lse.size(), -std::numeric_limits<Sum>::infinity());
  const AttentionInputs<T> x{c.q.data(), c.k.data(), c.v.data(), nullptr, nullptr, nullptr};
  for (const auto& pieces : calls) fold<T>(shape, pieces, x, out, lse);
  EXPECT_LE(apart(std::vector<double>(out.begin(), out.end()), want.out), forward_bound);
  EXPECT_LE(apart(std::vector<double>(lse.begin(), lse.end()), want.lse), forward_bound);

  std::vector<T> rounded_out;
  for (const double y : want.out) rounded_out.push_back(rounded<T>(y));
  std::vector<Sum> sums(want.lse.begin(), want.lse.end());
  const auto zeros = [](const std::vector<double>& like) {
    std::vector<Sum> z(like.begin(), like.end());
    for (Sum& y : z) y = std::isnan(y) ? y : Sum{0};
    return z;
  };
  std::vector<Sum> dq(want.out.size(), Sum{0}), dk = zeros(want.dk), dv = zeros(want.dv);
  const AttentionInputs<T> all{c.q.data(), c.k.data(), c.v.data(), rounded_out.data(), c.dout.data(), sums.data()};
  for (const auto& pieces : calls) add_gradients<T>(shape, pieces, all, dq, dk, dv);
  const auto rows = [](const auto& values, int64_t used, int64_t stride) {
    const std::vector<double> wide(values.begin(), values.end());
    return rows_only(std::span<const double>(wide), used, stride);
  };
  EXPECT_LE(apart(rows(dq, c.q_used, shape.out_stride), rows(want.dq, c.q_used, shape.q_stride)), backward_bound);
  EXPECT_LE(apart(rows(dk, c.kv_used, shape.kv_stride), rows(want.dk, c.kv_used, shape.kv_stride)), backward_bound);
  EXPECT_LE(apart(rows(dv, c.kv_used, shape.kv_stride), rows(want.dv, c.kv_used, shape.kv_stride)), backward_bound);
}

template <class Visit>
void for_each_shape(Visit visit) {
  for (const AttentionShape& s : kShapes) visit(s);
  for (const AttentionShape& s : variant_shapes())
    if (s.causal && !s.slopes_in_bf16) visit(s);
}

TEST(AttentionOnto, BlocksInAnyOrderGiveWhatAllKeysGiveInDoubles) {
  for_each_shape([](const AttentionShape& s) { expect_folds<double>(s, 1e-14, 1e-13); });
}

// bf16: the sums are f32, and the inputs those of the twin; out, which D is made of, is rounded.
TEST(AttentionOnto, KernelsOfEachSetAreTheTwinWithinRounding) {
  for_each_isa([] {
    for_each_shape([](const AttentionShape& s) {
      expect_folds<float>(s, 2e-6, 1e-5);
      expect_folds<bf16>(s, has_tile_attention() ? 1e-2 : 2e-6, 1e-2);
    });
  });
}

// A query that sees no key of a block, as all lie before its window, keeps its bits; one that has seen none stays empty.
TEST(AttentionOnto, KeysBeforeTheWindowChangeNothing) {
  for_each_isa([] {
    const AttentionShape shape = shape_of(2, 1, 7, 5);
    const AttentionCase<float> c(shape);
    const float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> out(static_cast<size_t>(c.rows * shape.out_stride), 0.5f);
    std::vector<float> lse(static_cast<size_t>(c.rows * shape.heads), 1.5f);
    lse[0] = lse[1] = -infinity;
    for (int64_t d = 0; d < shape.out_stride; ++d) out[static_cast<size_t>(d)] = 0;
    const auto before = out, sums = lse;
    // Queries from position 12 on see keys from 8 on.
    const AttentionPiece piece{.query_row = 0, .num_queries = 30, .key_row = 50, .num_keys = 8, .distance = 12};
    attention_onto<float>(shape, {&piece, 1}, c.q.data(), c.k.data(), c.v.data(), out.data(), lse);
    EXPECT_EQ(out, before);
    EXPECT_EQ(lse, sums);
  });
}

}  // namespace
}  // namespace tern
