#include "kernels/cpu/head_loss.h"

#include "kernels/kernel_testing.h"
#include "kernels/ref/cross_entropy_ref.h"
#include "kernels/ref/head_loss_ref.h"
#include "kernels/ref/matmul_ref.h"

namespace tern {
namespace {

struct HeadLossSize {
  int64_t rows, vocab, width;
};
constexpr HeadLossSize kHeadLossSizes[] = {{1, 1, 1},      {7, 31, 33},   {33, 70, 48},  {64, 256, 32},
                                           {31, 1000, 96}, {130, 515, 7}, {512, 300, 40}};

struct HeadLossCase {
  HeadLossSize s;
  std::vector<bf16> x, w;
  std::vector<float> old;
  std::vector<int32_t> targets;
  HeadLossCase(HeadLossSize size, double spread) : s(size) {
    x = random_values<bf16>("x", s.rows * s.width, spread);
    w = random_values<bf16>("w", s.vocab * s.width, 0.5);
    old = random_values<float>("dw", s.vocab * s.width, 0.01);
    for (int64_t r = 0; r < s.rows; ++r)  // every fifth row has no loss; the first and last words are targets too
      targets.push_back(r % 5 == 4 ? -1 : static_cast<int32_t>(r == 0 ? s.vocab - 1 : r * 37 % s.vocab));
  }
};

struct Result {
  Guarded<float> losses, dw;
  Guarded<bf16> dx;
  Guarded<uint8_t> scratch;
  Result(const HeadLossCase& c, float scale)
      : losses(c.targets.size()),
        dw(c.old),
        dx(c.x.size()),
        scratch(static_cast<size_t>(head_loss_scratch_bytes(c.s.rows, c.s.vocab, c.s.width))) {
    head_loss(c.s.vocab, c.s.width, c.targets, scale, c.x, c.w, losses.span(), dx.span(), dw.span(),
              std::as_writable_bytes(scratch.span()));
  }
};

template <class Check>
void for_each_isa_with_a_fused_head(Check check) {
  for_each_isa_that(has_head_loss, "has a fused head", check);
}

/// |got - want| <= relative·terms + absolute, elementwise; NaN fails.
template <class T>
testing::AssertionResult within_terms(Guarded<T>& got, const std::vector<double>& want,
                                      const std::vector<double>& terms, double relative, double absolute) {
  if (!got.guards_intact()) return testing::AssertionFailure() << "wrote beside the buffer";
  for (size_t i = 0; i < want.size(); ++i)
    if (!(std::abs(value_of(got.values()[i]) - want[i]) <= relative * terms[i] + absolute))
      return testing::AssertionFailure() << "[" << i << "] got " << value_of(got.values()[i]) << ", want " << want[i]
                                         << ", terms " << terms[i];
  return testing::AssertionSuccess();
}

/// z errs by a sum of `width` products in f32, which softmax takes as a relative error. An element of dz has two more
/// roundings to bf16; one that is a target's is a difference of softmax and 1, so both count. Sums of dz err by as
/// much of the sum of their terms' magnitudes; dx is rounded once more.
void matches(HeadLossSize s, double spread) {
  SCOPED_TRACE(testing::Message() << s.rows << " rows, vocabulary " << s.vocab << ", width " << s.width << ", spread "
                                  << spread);
  constexpr float kScale = 0.25f;
  const HeadLossCase c(s, spread);
  std::vector<double> losses(c.targets.size()), dx(c.x.size()), dw = doubles(c.old);
  head_loss_ref(s.vocab, s.width, c.targets, kScale, doubles(c.x), doubles(c.w), losses, dx, dw);
  const auto rows = static_cast<size_t>(s.rows), vocab = static_cast<size_t>(s.vocab);
  std::vector<double> dz(rows * vocab), unused(rows), dx_terms(dx.size()), dw_terms(dw.size());
  multiply_ref(doubles(c.x), doubles(c.w), {}, s.rows, s.vocab, s.width, false, dz);
  cross_entropy_forward_backward_ref(s.vocab, c.targets, {}, kScale, dz, unused);
  for (size_t r = 0; r < rows; ++r)
    if (c.targets[r] >= 0) dz[r * vocab + static_cast<size_t>(c.targets[r])] = 2 * kScale;  // softmax and onehot
  multiply_nn_ref(magnitudes(dz), magnitudes(doubles(c.w)), s.rows, s.vocab, s.width, false, dx_terms);
  multiply_tn_ref(magnitudes(dz), magnitudes(doubles(c.x)), s.rows, s.vocab, s.width, dw_terms);

  Result got(c, kScale);
  const double z_terms = 4 * spread * 4 * 0.5 * static_cast<double>(s.width);  // Σ |x·w| within four deviations
  const double z_error = 2 * static_cast<double>(s.width + 4) * kRoundoff<float> * z_terms;
  const double dz_error = 2 * kRoundoff<bf16> + z_error;
  EXPECT_TRUE(is_close(got.losses, losses, {.absolute = z_error + 1e-5, .relative = 1e-5}));
  EXPECT_TRUE(within_terms(got.dx, dx, dx_terms, dz_error + kRoundoff<bf16>, 1e-6));
  EXPECT_TRUE(within_terms(got.dw, dw, dw_terms, dz_error, 1e-6));
  EXPECT_TRUE(got.scratch.guards_intact()) << "scratch is larger than promised";
}

TEST(HeadLoss, MatchesRefOnOddTailsAndAddsToTheGradient) {
  for_each_isa_with_a_fused_head([] {
    for (const HeadLossSize s : kHeadLossSizes) matches(s, 1);
  });
}

TEST(HeadLoss, LargeLogitsNeitherOverflowNorVanish) {
  for_each_isa_with_a_fused_head([] {
    for (const HeadLossSize s : {HeadLossSize{33, 700, 64}, HeadLossSize{40, 300, 33}}) matches(s, 40);
  });
}

TEST(HeadLoss, RowsWithoutLossGiveNothing) {
  for_each_isa_with_a_fused_head([] {
    HeadLossCase c({20, 300, 40}, 1);
    std::fill(c.targets.begin(), c.targets.end(), -1);
    Result got(c, 1);
    EXPECT_TRUE(is_close(got.losses, std::vector<double>(20), {}));
    EXPECT_TRUE(is_close(got.dx, std::vector<double>(c.x.size()), {}));
    EXPECT_TRUE(is_close(got.dw, doubles(c.old), {}));
  });
}

TEST(HeadLoss, RepeatsItsBits) {
  for_each_isa_with_a_fused_head([] {
    for (const int threads : {1, 2})
      with_threads(threads, [] {
        const HeadLossCase c({70, 1100, 48}, 1);
        Result one(c, 0.5f), two(c, 0.5f);
        EXPECT_TRUE(same_bits(two.losses.values(), one.losses.values()));
        EXPECT_TRUE(same_bits(two.dx.values(), one.dx.values()));
        EXPECT_TRUE(same_bits(two.dw.values(), one.dw.values()));
      });
  });
}

/// The vocabulary in parts, as ranks share it out: the last is what is left, the one before is empty.
struct Parts {
  Guarded<float> losses, dw;
  std::vector<double> dx;
  Parts(const HeadLossCase& c, float scale, int64_t cut) : losses(c.targets.size()), dw(c.old), dx(c.x.size()) {
    const int64_t begins[] = {0, cut, cut, c.s.vocab};
    std::vector<std::vector<float>> lse, minus_target;
    const auto pass = [&](int part, const JoinHeadParts& join, std::span<float> own_losses, std::span<bf16> own_dx,
                          std::span<float> own_dw) {
      const int64_t begin = begins[part], vocab = begins[part + 1] - begin;
      std::vector<int32_t> targets;
      for (const int32_t t : c.targets)
        targets.push_back(t < 0                             ? -1
                          : t >= begin && t < begin + vocab ? static_cast<int32_t>(t - begin)
                                                            : kTargetElsewhere);
      std::vector<std::byte> scratch(static_cast<size_t>(head_loss_scratch_bytes(c.s.rows, vocab, c.s.width)));
      const auto at = static_cast<size_t>(begin * c.s.width), count = static_cast<size_t>(vocab * c.s.width);
      head_loss(vocab, c.s.width, targets, scale, c.x, std::span(c.w).subspan(at, count), own_losses, own_dx,
                own_dw.subspan(at, count), scratch, join);
    };
    for (int part = 0; part < 3; ++part) {  // what each has to tell
      std::vector<float> told(c.targets.size()), unused_dw(c.old.size());
      std::vector<bf16> unused_dx(c.x.size());
      pass(
          part, [&](std::span<float> own, std::span<float>) { lse.emplace_back(own.begin(), own.end()); }, told,
          unused_dx, unused_dw);
      minus_target.push_back(told);
    }
    for (int part = 0; part < 3; ++part) {
      std::vector<bf16> own_dx(c.x.size());
      const auto join = [&](std::span<float> own, std::span<float> loss) {
        for (size_t r = 0; r < own.size(); ++r) {
          const float top = std::max({lse[0][r], lse[1][r], lse[2][r]});
          float sum = 0, target = 0;
          for (int k = 0; k < 3; ++k) sum += std::exp(lse[k][r] - top), target += minus_target[k][r];
          own[r] = top + std::log(sum);
          loss[r] = c.targets[r] < 0 ? 0 : own[r] + target;
        }
      };
      pass(part, join, losses.span(), own_dx, dw.span());
      for (size_t i = 0; i < dx.size(); ++i) dx[i] += value_of(own_dx[i]);
    }
  }
};

TEST(HeadLoss, PartsOfTheVocabularyAreTheWhole) {
  for_each_isa_with_a_fused_head([] {
    for (const auto [s, cut] : {std::pair{HeadLossSize{7, 31, 33}, 8}, {{64, 256, 32}, 32}, {{130, 515, 7}, 300}}) {
      SCOPED_TRACE(s.vocab);
      const HeadLossCase c(s, 4);
      Result whole(c, 0.25f);
      Parts got(c, 0.25f, cut);
      const auto most = [](const std::vector<double>& v) {
        double m = 0;
        for (const double x : v) m = std::max(m, std::abs(x));
        return m;
      };
      const std::vector<double> losses = doubles(whole.losses.values()), dx = doubles(whole.dx.values()),
                                dw = doubles(whole.dw.values());
      EXPECT_TRUE(is_close(got.losses, losses, {.absolute = 1e-4, .relative = 1e-5}));
      for (size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(got.dx[i], dx[i], 4 * kRoundoff<bf16> * most(dx)) << i;
      EXPECT_TRUE(is_close(got.dw, dw, {.absolute = 4 * kRoundoff<bf16> * most(dw), .relative = 0}));
    }
  });
}

TEST(HeadLoss, SetsWithoutAFusedHeadAskForNoScratch) {
  for_each_isa([] { EXPECT_EQ(head_loss_scratch_bytes(8, 100, 32) > 0, has_head_loss()); });
}

}  // namespace
}  // namespace tern
