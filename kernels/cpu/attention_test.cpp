#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cstring>

#include "kernels/attention_testing.h"
#include "kernels/cpu/kv_rows.h"
#include "kernels/ref/attention_ref.h"

namespace tern {
namespace {

// Error of a score: dim products of size Σ|q k| <= |q||k|, scaled. Normal values: norms near sqrt(dim), below sqrt(dim)
// + 5.
double score_error(const AttentionShape& s) {
  const double norm = std::sqrt(static_cast<double>(s.head_dim)) + 5;
  return (static_cast<double>(s.head_dim) + 8) * kRoundoff<float> * static_cast<double>(s.scale) * norm * norm;
}
constexpr double kLargest = 5;  // of the inputs; a softmax-weighted mean stays below it

template <class T>
void forward_matches(const AttentionCase<T>& c) {
  const Reference want = reference_forward(c);
  Guarded<T> out(want.out.size());
  Guarded<float> lse(want.lse.size());
  const PlainSequences<T> sequences(c.shape, kStarts, c.k.data(), c.v.data());
  attention_forward<T>(c.shape, sequences.list, c.q.data(), out.data(), lse.span());
  ASSERT_TRUE(out.guards_intact());
  EXPECT_TRUE(gaps_untouched(out.values(), c.q_used, c.shape.out_stride));
  const double error = 2 * score_error(c.shape) + 40 * kRoundoff<float>;
  const auto got = rows_only(out.values(), c.q_used, c.shape.out_stride);
  EXPECT_TRUE(is_close(std::span<const T>(got),
                       rows_only(std::span<const double>(want.out), c.q_used, c.shape.out_stride),
                       {.absolute = error * kLargest, .relative = kRoundoff<T>}));
  EXPECT_TRUE(is_close(lse, want.lse, {.absolute = error, .relative = 4 * kRoundoff<float>}));
}

template <class T>
void backward_matches(const AttentionCase<T>& c) {
  const Reference forward = reference_forward(c);
  std::vector<T> out;
  for (const double x : forward.out) out.push_back(rounded<T>(x));
  std::vector<float> lse;
  for (const double x : forward.lse) lse.push_back(static_cast<float>(x));
  const auto q = doubles(c.q), k = doubles(c.k), v = doubles(c.v), dout = doubles(c.dout);
  std::vector<double> dq(q.size(), std::nan("")), dk(k.size(), std::nan("")), dv(v.size(), std::nan(""));
  attention_backward_ref(c.shape, kStarts, q.data(), k.data(), v.data(), doubles(out).data(), dout.data(), doubles(lse),
                         dq.data(), dk.data(), dv.data());
  Guarded<T> got_dq(dq.size()), got_dk(dk.size()), got_dv(dv.size());
  attention_backward<T>(c.shape, kStarts, c.q.data(), c.k.data(), c.v.data(), out.data(), c.dout.data(), lse,
                        got_dq.data(), got_dk.data(), got_dv.data());
  ASSERT_TRUE(got_dq.guards_intact() && got_dk.guards_intact() && got_dv.guards_intact());
  // P errs by `weight` of itself; dS by that of dout·v - D, and by the error of those two products. A key is seen by at
  // most `queries` rows, whose weights for it sum to about as much as that, in the worst case.
  const double norm = std::sqrt(static_cast<double>(c.shape.head_dim)) + 5, product = norm * norm;
  const double weight = score_error(c.shape) + 64 * kRoundoff<float>;
  const double slope_error = product * (2 * weight + (static_cast<double>(c.shape.head_dim) + 8) * kRoundoff<float>);
  const double group = static_cast<double>(c.shape.heads / c.shape.kv_heads);
  const double queries = group * static_cast<double>(c.shape.window > 0 ? std::min<int64_t>(c.shape.window, 131) : 20);
  const double scale = static_cast<double>(c.shape.scale);
  const auto check = [](Guarded<T>& got, const std::vector<double>& want, int64_t used, int64_t stride,
                        double absolute) {
    EXPECT_TRUE(gaps_untouched(got.values(), used, stride));
    const auto rows = rows_only(got.values(), used, stride);
    EXPECT_TRUE(is_close(std::span<const T>(rows), rows_only(std::span<const double>(want), used, stride),
                         {.absolute = absolute, .relative = kRoundoff<T>}));
  };
  check(got_dq, dq, c.q_used, c.shape.q_stride, scale * slope_error * kLargest);
  check(got_dk, dk, c.kv_used, c.shape.kv_stride, scale * slope_error * kLargest * queries);
  check(got_dv, dv, c.kv_used, c.shape.kv_stride, weight * kLargest * queries);
}

TEST(Attention, ForwardMatchesRefOnRaggedBatches) {
  for_each_isa([] {
    for (const AttentionShape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.heads << " heads of " << s.head_dim << ", window " << s.window);
      forward_matches(AttentionCase<float>(s));
      forward_matches(AttentionCase<bf16>(s));
    }
  });
}
TEST(Attention, BackwardMatchesRefOnRaggedBatches) {
  for_each_isa([] {
    for (const AttentionShape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.heads << " heads of " << s.head_dim << ", window " << s.window);
      backward_matches(AttentionCase<float>(s));
      backward_matches(AttentionCase<bf16>(s));
    }
  });
}

TEST(Attention, CapsSlopesAndBothDirectionsMatchRef) {
  for_each_isa([] {
    for (const AttentionShape& s : variant_shapes()) {
      SCOPED_TRACE(testing::Message() << s.heads << " heads of " << s.head_dim << ", cap " << s.softcap);
      forward_matches(AttentionCase<float>(s));
      forward_matches(AttentionCase<bf16>(s));
      backward_matches(AttentionCase<float>(s));
      backward_matches(AttentionCase<bf16>(s));
    }
  });
}

// Keys and values of one sequence cut into pages in an order of their own, NaN where no token lies; pages that lie
// wholly before the window of the first query have a number far outside of the storage.
template <class T>
struct Paged {
  PageLayout layout;
  std::vector<T> keys, values;
  std::vector<int32_t> pages;
  Paged(const AttentionCase<T>& c, int64_t first_row, int64_t num_keys, int64_t page_tokens, int64_t first_query,
        bool by_heads) {
    const int64_t stride = c.shape.kv_stride, dim = c.shape.head_dim, num = (num_keys + page_tokens - 1) / page_tokens;
    const int64_t first_seen = c.shape.window > 0 ? std::max<int64_t>(0, first_query - c.shape.window + 1) : 0;
    layout = {page_tokens, page_tokens * stride + 3, by_heads ? dim : stride, by_heads ? page_tokens * dim : dim};
    keys.assign(static_cast<size_t>(num * layout.page_stride), rounded<T>(std::nan("")));
    values = keys;
    for (int64_t p = 0; p < num; ++p) {
      const int64_t token = p * page_tokens, number = num - 1 - p;  // the last page first
      const bool seen = token + page_tokens > first_seen;
      pages.push_back(seen ? static_cast<int32_t>(number) : 1 << 30);
      for (int64_t i = 0; seen && i < std::min(page_tokens, num_keys - token); ++i)
        for (int64_t h = 0; h < c.shape.kv_heads; ++h) {
          const int64_t from = (first_row + token + i) * stride + h * dim;
          const int64_t to = number * layout.page_stride + i * layout.key_stride + h * layout.head_stride;
          std::copy_n(c.k.begin() + from, dim, keys.begin() + to);
          std::copy_n(c.v.begin() + from, dim, values.begin() + to);
        }
    }
  }
};

template <class T>
void arrangement_changes_no_bit(const AttentionShape& shape) {
  SCOPED_TRACE(testing::Message() << shape.heads << " heads of " << shape.head_dim << ", window " << shape.window);
  constexpr int64_t kLength = 201,
                    kFirst = 70;  // our sequence among the rows; the 70 before and none after are neighbours
  const AttentionCase<T> c(shape, kFirst + kLength);
  const int64_t out_size = (kFirst + kLength) * shape.out_stride, lse_size = (kFirst + kLength) * shape.heads;
  struct Result {
    std::vector<T> rows;
    std::vector<float> lse;  // in its own type: bf16 would hide a last bit
  };
  const auto run = [&](int64_t chunk, int64_t page_tokens, bool neighbours, bool by_heads) {
    Guarded<T> out(static_cast<size_t>(out_size));
    Guarded<float> lse(static_cast<size_t>(lse_size));
    for (int64_t done = 0; done < kLength; done += chunk) {
      const int64_t count = std::min(chunk, kLength - done);
      const Paged<T> paged(c, kFirst, done + count, page_tokens, done, by_heads);
      std::vector<AttentionSequence<T>> batch;
      if (neighbours) batch.push_back({0, 3, 60, c.k.data(), c.v.data()});
      batch.push_back({kFirst + done, count, done + count, paged.keys.data(), paged.values.data(), paged.pages.data(),
                       paged.layout});
      if (neighbours) batch.push_back({10, 60, 65, c.k.data(), c.v.data()});
      attention_forward<T>(shape, batch, c.q.data(), out.data(), lse.span());
    }
    EXPECT_TRUE(out.guards_intact() && lse.guards_intact());
    const auto ours = lse.values().subspan(static_cast<size_t>(kFirst * shape.heads));
    return Result{
        rows_only(out.values().subspan(static_cast<size_t>(kFirst * shape.out_stride)), c.q_used, shape.out_stride),
        {ours.begin(), ours.end()}};
  };
  const Result want = run(kLength, kLength, false, false);
  for (const T x : want.rows) ASSERT_TRUE(std::isfinite(value_of(x)));
  for (const float x : want.lse) ASSERT_TRUE(std::isfinite(x));
  for (const int64_t chunk : {int64_t{1}, int64_t{16}, int64_t{128}, kLength})
    for (const int64_t page_tokens : {int64_t{1}, int64_t{16}, int64_t{64}, kLength})
      for (const bool neighbours : {false, true}) {
        const bool by_heads = !neighbours;  // neighbours keep plain rows
        SCOPED_TRACE(testing::Message() << "chunk " << chunk << ", pages of " << page_tokens << ", neighbours "
                                        << neighbours);
        const Result got = run(chunk, page_tokens, neighbours, by_heads);
        ASSERT_TRUE(same_bits(std::span<const T>(got.rows), std::span<const T>(want.rows)));
        ASSERT_TRUE(same_bits(std::span<const float>(got.lse), std::span<const float>(want.lse)));
      }
}

TEST(Attention, ChunksPagesAndNeighboursChangeNoBit) {
  for_each_isa([] {
    arrangement_changes_no_bit<float>(shape_of(6, 2, 33, 0, 3));
    arrangement_changes_no_bit<float>(shape_of(2, 1, 16, 70));
    arrangement_changes_no_bit<bf16>(shape_of(3, 1, 20, 5));
    arrangement_changes_no_bit<float>(variant_shapes()[0]);
    arrangement_changes_no_bit<bf16>(variant_shapes()[1]);
  });
}

// Rows kept in another type: the bits of attention over their decoded numbers, with chunks and pages of any size.
template <class T>
void kept_rows_are_their_numbers(const AttentionShape& shape, KvType type) {
  SCOPED_TRACE(testing::Message() << name_of(type) << ", heads of " << shape.head_dim << ", window " << shape.window);
  constexpr int64_t kLength = 150;
  const AttentionCase<T> c(shape, kLength);
  const int64_t dim = shape.head_dim, row = kv_row_bytes(type, dim), heads = shape.kv_heads;
  for (const auto& [chunk, page_tokens] : {std::pair<int64_t, int64_t>{kLength, 16}, {1, 7}, {33, 64}}) {
    const int64_t num_pages = (kLength + page_tokens - 1) / page_tokens, rows = num_pages * heads * page_tokens;
    std::vector<uint8_t> keys(static_cast<size_t>(rows * row), 0xff), values = keys;
    std::vector<T> plain_keys(static_cast<size_t>(rows * dim), rounded<T>(std::nan(""))), plain_values = plain_keys;
    std::vector<int32_t> pages;
    for (int64_t p = 0; p < num_pages; ++p) pages.push_back(static_cast<int32_t>(num_pages - 1 - p));
    for (int64_t t = 0; t < kLength; ++t)
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t from = t * shape.kv_stride + h * dim;
        const int64_t to = (pages[static_cast<size_t>(t / page_tokens)] * heads + h) * page_tokens + t % page_tokens;
        write_kv_row(type, c.k.data() + from, dim, keys.data() + to * row);
        write_kv_row(type, c.v.data() + from, dim, values.data() + to * row);
        read_kv_row(type, keys.data() + to * row, dim, plain_keys.data() + to * dim);
        read_kv_row(type, values.data() + to * row, dim, plain_values.data() + to * dim);
      }
    const auto run = [&](bool kept) {
      Guarded<T> out(static_cast<size_t>(kLength * shape.out_stride));
      Guarded<float> lse(static_cast<size_t>(kLength * shape.heads));
      const int64_t width = kept ? row : dim;
      const PageLayout layout{page_tokens, heads * page_tokens * width, width, page_tokens * width};
      for (int64_t done = 0; done < kLength; done += chunk) {
        const int64_t count = std::min(chunk, kLength - done);
        AttentionSequence<T> s{done, count, done + count, plain_keys.data(), plain_values.data(), pages.data(), layout};
        if (kept) s.keys = s.values = nullptr, s.kept = {type, keys.data(), values.data()};
        attention_forward<T>(shape, std::span(&s, 1), c.q.data(), out.data(), lse.span());
      }
      EXPECT_TRUE(out.guards_intact() && lse.guards_intact());
      const auto used = rows_only(out.values(), c.q_used, shape.out_stride);
      return std::pair{used, std::vector<float>(lse.values().begin(), lse.values().end())};
    };
    const auto want = run(false), got = run(true);
    for (const T x : want.first) ASSERT_TRUE(std::isfinite(value_of(x)));
    ASSERT_TRUE(same_bits(std::span<const T>(got.first), std::span<const T>(want.first))) << "chunk " << chunk;
    ASSERT_TRUE(same_bits(std::span<const float>(got.second), std::span<const float>(want.second)));
  }
}

TEST(Attention, RowsKeptInAnotherTypeAreAttendedAsTheirNumbers) {
  for_each_isa([] {
    for (const KvType type : {KvType::q8, KvType::q4}) {
      kept_rows_are_their_numbers<float>(shape_of(6, 2, 33, 0, 3), type);
      kept_rows_are_their_numbers<float>(shape_of(2, 1, 64, 70), type);
      kept_rows_are_their_numbers<float>(shape_of(70, 1, 7, 0), type);
      kept_rows_are_their_numbers<bf16>(shape_of(3, 1, 20, 5), type);
      kept_rows_are_their_numbers<bf16>(shape_of(8, 2, 64, 0), type);
      kept_rows_are_their_numbers<bf16>(shape_of(2, 2, 257, 0), type);
    }
    kept_rows_are_their_numbers<float>(shape_of(6, 2, 33, 40, 3), KvType::bf16);
  });
}

TEST(AttentionRef, ReadsRowsKeptInAnotherType) {
  const AttentionShape shape = shape_of(2, 1, 9, 0);
  const AttentionCase<double> c(shape, 20);
  for (const KvType type : {KvType::f64, KvType::f32, KvType::bf16, KvType::q8, KvType::q4}) {
    const int64_t row = kv_row_bytes(type, 9);
    std::vector<uint8_t> keys(static_cast<size_t>(20 * row)), values = keys;
    std::vector<double> k(20 * 9), v(20 * 9);
    for (int64_t t = 0; t < 20; ++t) {
      write_kv_row(type, c.k.data() + t * 9, 9, keys.data() + t * row);
      write_kv_row(type, c.v.data() + t * 9, 9, values.data() + t * row);
      read_kv_row(type, keys.data() + t * row, 9, k.data() + t * 9);
      read_kv_row(type, values.data() + t * row, 9, v.data() + t * 9);
    }
    const std::vector<int32_t> pages{0};
    const AttentionSequence<double> plain{0, 20, 20, k.data(), v.data()};
    AttentionSequence<double> kept{0, 20, 20, nullptr, nullptr, pages.data(), {20, 20 * row, row, 20 * row}};
    kept.kept = {type, keys.data(), values.data()};
    std::vector<double> want(20 * 18), got(20 * 18, std::nan(""));
    attention_forward_ref(shape, {&plain, 1}, c.q.data(), want.data(), {});
    attention_forward_ref(shape, {&kept, 1}, c.q.data(), got.data(), {});
    EXPECT_EQ(got, want) << name_of(type);
  }
}

TEST(Attention, ThreadsChangeNoBit) {
  for_each_isa([] {
    const AttentionCase<float> c(shape_of(6, 2, 40, 50));
    struct Results {
      Guarded<float> out, lse, dq, dk, dv;
    };
    const auto run = [&](int threads) {
      Results g{Guarded<float>(c.dout.size()), Guarded<float>(static_cast<size_t>(c.rows * 6)),
                Guarded<float>(c.q.size()), Guarded<float>(c.k.size()), Guarded<float>(c.v.size())};
      with_threads(threads, [&] {
        const PlainSequences<float> sequences(c.shape, kStarts, c.k.data(), c.v.data());
        attention_forward<float>(c.shape, sequences.list, c.q.data(), g.out.data(), g.lse.span());
        attention_backward<float>(c.shape, kStarts, c.q.data(), c.k.data(), c.v.data(), g.out.data(), c.dout.data(),
                                  g.lse.values(), g.dq.data(), g.dk.data(), g.dv.data());
      });
      return g;
    };
    Results one = run(1);
    for (const int threads : {2, 3}) {
      Results other = run(threads);
      EXPECT_TRUE(same_bits(other.out.values(), one.out.values()) && same_bits(other.lse.values(), one.lse.values()));
      EXPECT_TRUE(same_bits(other.dq.values(), one.dq.values()));
      EXPECT_TRUE(same_bits(other.dk.values(), one.dk.values()) && same_bits(other.dv.values(), one.dv.values()));
    }
  });
}

// One thread takes a kv head at a time, in one pass; for many threads these are too few tasks, so there are two passes.
template <class T>
void one_pass_has_the_bits_of_two(const AttentionCase<T>& c) {
  std::vector<T> out(c.dout.size());
  std::vector<float> lse(static_cast<size_t>(kStarts.back() * c.shape.heads));
  const PlainSequences<T> sequences(c.shape, kStarts, c.k.data(), c.v.data());
  attention_forward<T>(c.shape, sequences.list, c.q.data(), out.data(), lse);
  const auto gradients = [&](int threads) {
    std::vector<T> all[] = {c.q, c.k, c.v};
    with_threads(threads, [&] {
      attention_backward<T>(c.shape, kStarts, c.q.data(), c.k.data(), c.v.data(), out.data(), c.dout.data(), lse,
                            all[0].data(), all[1].data(), all[2].data());
    });
    std::vector<T> joined;
    for (const std::vector<T>& part : all) joined.insert(joined.end(), part.begin(), part.end());
    return joined;
  };
  const std::vector<T> one = gradients(1), two = gradients(40);
  EXPECT_EQ(std::memcmp(one.data(), two.data(), one.size() * sizeof(T)), 0);
}

TEST(Attention, OnePassOverAHeadHasTheBitsOfTwo) {
  std::vector<AttentionShape> shapes = variant_shapes();
  shapes.insert(shapes.end(), std::begin(kShapes), std::end(kShapes));
  for_each_isa([&] {
    for (const AttentionShape& s : shapes) {
      SCOPED_TRACE(testing::Message() << s.heads << " heads of " << s.head_dim << ", window " << s.window);
      one_pass_has_the_bits_of_two(AttentionCase<float>(s));
      one_pass_has_the_bits_of_two(AttentionCase<bf16>(s));
    }
  });
}

TEST(Attention, LargeScoresNeitherOverflowNorVanish) {
  for_each_isa([] {
    const AttentionShape shape = shape_of(1, 1, 16, 0);
    const auto values = random_values<float>("v", 3 * 16);
    std::vector<float> q(3 * 16, 100.0f), k(3 * 16, 100.0f);  // scores of 40,000; the second key the smallest by far
    for (size_t i = 16; i < 32; ++i) k[i] = -100.0f;
    Guarded<float> out(q.size()), lse(3);
    const PlainSequences<float> sequences(shape, {0, 3}, k.data(), values.data());
    attention_forward<float>(shape, sequences.list, q.data(), out.data(), lse.span());
    for (size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(out.values()[i], values[i]);
      EXPECT_EQ(out.values()[16 + i], values[i]);
      EXPECT_FLOAT_EQ(out.values()[32 + i], (values[i] + values[32 + i]) / 2);
    }
    EXPECT_FLOAT_EQ(lse.values()[0], 40000.0f);
  });
}

TEST(Attention, MaskedScoresOfGreatSizeChangeNothing) {  // in a tile, a later key is multiplied before it is masked
  for_each_isa([] {
    const AttentionCase<float> c(shape_of(2, 1, 16, 4), 40);
    std::vector<float> loud = c.k;
    for (size_t i = 30 * 16; i < loud.size(); ++i) loud[i] *= 1e4f;  // position 30 and after
    const auto run = [&](const std::vector<float>& k) {
      std::vector<float> out(40 * 32);
      const PlainSequences<float> sequences(c.shape, {0, 40}, k.data(), c.v.data());
      attention_forward<float>(c.shape, sequences.list, c.q.data(), out.data(), {});
      out.resize(30 * 32);
      return out;
    };
    EXPECT_EQ(run(loud), run(c.k));
  });
}

TEST(AttentionRef, GradientsMatchFiniteDifferences) {
  std::vector<AttentionShape> shapes{shape_of(4, 2, 5, 0), shape_of(3, 1, 6, 3)};
  for (AttentionShape s : variant_shapes()) {  // without gaps between rows
    s.q_stride = s.out_stride = s.heads * s.head_dim, s.kv_stride = s.kv_heads * s.head_dim;
    shapes.push_back(s);
  }
  for (const AttentionShape& shape : shapes) {
    const std::vector<int64_t> starts = {0, 4, 11};
    const AttentionCase<double> c(shape, 11);
    const auto eq = random_values<double>("eq", 11 * shape.q_stride),
               ek = random_values<double>("ek", 11 * shape.kv_stride);
    const auto ev = random_values<double>("ev", 11 * shape.kv_stride);
    std::vector<double> out(c.dout.size()), lse(static_cast<size_t>(11 * shape.heads)), dq(c.q.size()), dk(c.k.size()),
        dv(c.v.size());
    const auto forward = [&](double tq, double tk, double tv) {
      auto q = c.q, k = c.k, v = c.v;
      for (size_t i = 0; i < q.size(); ++i) q[i] += tq * eq[i];
      for (size_t i = 0; i < k.size(); ++i) k[i] += tk * ek[i], v[i] += tv * ev[i];
      const PlainSequences<double> sequences(shape, starts, k.data(), v.data());
      attention_forward_ref(shape, sequences.list, q.data(), out.data(), lse);
      double sum = 0;
      for (size_t i = 0; i < out.size(); ++i) sum += c.dout[i] * out[i];
      return sum;
    };
    forward(0, 0, 0);
    attention_backward_ref(shape, starts, c.q.data(), c.k.data(), c.v.data(), out.data(), c.dout.data(), lse, dq.data(),
                           dk.data(), dv.data());
    double along_q = 0, along_k = 0, along_v = 0;
    for (size_t i = 0; i < dq.size(); ++i) along_q += dq[i] * eq[i];
    for (size_t i = 0; i < dk.size(); ++i) along_k += dk[i] * ek[i], along_v += dv[i] * ev[i];
    EXPECT_NEAR(slope([&](double t) { return forward(t, 0, 0); }, 1e-5), along_q, 1e-7);
    EXPECT_NEAR(slope([&](double t) { return forward(0, t, 0); }, 1e-5), along_k, 1e-7);
    EXPECT_NEAR(slope([&](double t) { return forward(0, 0, t); }, 1e-5), along_v, 1e-7);
  }
}

}  // namespace
}  // namespace tern
