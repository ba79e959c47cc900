#include "kernels/cpu/norm.h"

#include <algorithm>

#include "kernels/kernel_testing.h"
#include "kernels/ref/norm_ref.h"

namespace tern {
namespace {

struct NormSize {
  int64_t rows, width;
};
constexpr NormSize kNormSizes[] = {{1, 1}, {3, 7}, {7, 31}, {2, 33}, {5, 64}, {4, 65}, {31, 100}, {3, 1000}};
constexpr float kEps = 1e-5f;

template <class T>
struct NormCase {
  std::vector<T> x, w, b, dy, dx0;
  std::vector<float> dw0, db0;
  double largest_term = 0;  // of dx, before its terms cancel
  explicit NormCase(NormSize s)
      : x(random_values<T>("x", s.rows * s.width, 2, 0.5)),
        w(random_values<T>("w", s.width)),
        b(random_values<T>("b", s.width)),
        dy(random_values<T>("dy", s.rows * s.width)),
        dx0(random_values<T>("dx", s.rows * s.width)),
        dw0(random_values<float>("dw", s.width)),
        db0(random_values<float>("db", s.width)) {}
};

double largest(const std::vector<double>& v) {
  double m = 0;
  for (const double x : v) m = std::max(m, std::abs(x));
  return m;
}
// A sum of n terms in at least four chains, then a few more roundings.
double sum_error(int64_t n) { return (static_cast<double>(n) / 4 + 16) * kRoundoff<float>; }

template <class T>
void rms_matches(NormSize s) {
  SCOPED_TRACE(testing::Message() << "rows " << s.rows << ", width " << s.width);
  const NormCase<T> c(s);
  const auto x = doubles(c.x), w = doubles(c.w), dy = doubles(c.dy);
  std::vector<double> y(x.size()), rstd(static_cast<size_t>(s.rows)), dx(x.size()), sum_dx = doubles(c.dx0),
                                                                                    dw = doubles(c.dw0);
  rms_norm_ref(x, w, kEps, y, rstd);
  Guarded<T> got_y(c.x.size());
  Guarded<float> got_rstd(static_cast<size_t>(s.rows));
  rms_norm<T>(c.x, c.w, kEps, got_y.span(), got_rstd.span());
  EXPECT_TRUE(is_close(got_y, y, {.relative = sum_error(s.width) + kRoundoff<T>}));
  EXPECT_TRUE(is_close(got_rstd, rstd, {.relative = sum_error(s.width)}));
  Guarded<T> in_place(c.x);
  rms_norm<T>(in_place.values(), c.w, kEps, in_place.span(), {});
  EXPECT_TRUE(same_bits(in_place.values(), got_y.values()));

  const std::vector<float> kept(got_rstd.values().begin(), got_rstd.values().end());
  rms_norm_backward_input_ref(dy, x, w, rstd, dx, false);
  rms_norm_backward_input_ref(dy, x, w, rstd, sum_dx, true);
  const double scale =
      largest(rstd) * largest(dy) * largest(w) * (1 + largest(x) * largest(x) * largest(rstd) * largest(rstd));
  Guarded<T> got_dx(c.x.size()), in_place_dx(c.dy), got_sum(c.dx0);
  rms_norm_backward_input<T>(c.dy, c.x, c.w, kept, got_dx.span(), false);
  rms_norm_backward_input<T>(in_place_dx.values(), c.x, c.w, kept, in_place_dx.span(), false);
  rms_norm_backward_input<T>(c.dy, c.x, c.w, kept, got_sum.span(), true);
  EXPECT_TRUE(is_close(got_dx, dx, {.absolute = scale * sum_error(s.width), .relative = kRoundoff<T>}));
  EXPECT_TRUE(same_bits(in_place_dx.values(), got_dx.values()));
  EXPECT_TRUE(is_close(got_sum, sum_dx, {.absolute = (scale + 4) * sum_error(s.width), .relative = kRoundoff<T>}));

  rms_norm_backward_weight_ref(dy, x, rstd, dw);
  Guarded<float> got_dw(c.dw0);
  rms_norm_backward_weight<T>(c.dy, c.x, kept, got_dw.span());
  const double terms = 4 + static_cast<double>(s.rows) * largest(dy) * largest(x) * largest(rstd);
  EXPECT_TRUE(is_close(got_dw, dw, {.absolute = terms * (static_cast<double>(s.rows) + 4) * sum_error(s.width)}));
}

// An offset is the same as a weight that holds it.
template <class T>
void offset_is_part_of_the_weight(NormSize s) {
  NormCase<T> c(s);
  for (T& w : c.w) w = rounded<T>(std::round(8 * value_of(w)) / 8);  // so that w + 1 is exact
  std::vector<T> moved;
  for (const T w : c.w) moved.push_back(rounded<T>(value_of(w) + 1));
  std::vector<float> rstd(static_cast<size_t>(s.rows));
  Guarded<T> got(c.x.size()), want(c.x.size()), got_dx(c.x.size()), want_dx(c.x.size());
  rms_norm<T>(c.x, moved, kEps, want.span(), rstd);
  rms_norm<T>(c.x, c.w, kEps, got.span(), {}, 1);
  EXPECT_TRUE(same_bits(got.values(), want.values()));
  rms_norm_backward_input<T>(c.dy, c.x, moved, rstd, want_dx.span(), false);
  rms_norm_backward_input<T>(c.dy, c.x, c.w, rstd, got_dx.span(), false, 1);
  EXPECT_TRUE(same_bits(got_dx.values(), want_dx.values()));
}
TEST(Norm, AnOffsetIsPartOfTheWeight) {
  for_each_isa([] {
    for (const NormSize s : kNormSizes) offset_is_part_of_the_weight<float>(s), offset_is_part_of_the_weight<bf16>(s);
  });
}

template <class T>
void layer_matches(NormSize s) {
  SCOPED_TRACE(testing::Message() << "rows " << s.rows << ", width " << s.width);
  const NormCase<T> c(s);
  const float eps = s.width == 1 ? 0.5f : kEps;  // one column: the variance is zero
  const auto x = doubles(c.x), w = doubles(c.w), b = doubles(c.b), dy = doubles(c.dy);
  std::vector<double> y(x.size()), bare(x.size()), mean(static_cast<size_t>(s.rows)), rstd(mean.size());
  layer_norm_ref(x, w, {}, eps, bare, {}, {});
  layer_norm_ref(x, w, b, eps, y, mean, rstd);
  const double shift = largest(x) * largest(rstd);  // the mean errs by a part of the largest x
  const double absolute = (1 + shift) * (1 + largest(w)) * 2 * sum_error(s.width);
  Guarded<T> got_y(c.x.size()), got_bare(c.x.size());
  Guarded<float> got_mean(mean.size()), got_rstd(mean.size());
  layer_norm<T>(c.x, c.w, c.b, eps, got_y.span(), got_mean.span(), got_rstd.span());
  layer_norm<T>(c.x, c.w, {}, eps, got_bare.span(), {}, {});
  EXPECT_TRUE(is_close(got_y, y, {.absolute = absolute, .relative = kRoundoff<T>}));
  EXPECT_TRUE(is_close(got_bare, bare, {.absolute = absolute, .relative = kRoundoff<T>}));
  EXPECT_TRUE(is_close(got_mean, mean, {.absolute = largest(x) * sum_error(s.width)}));
  EXPECT_TRUE(is_close(got_rstd, rstd, {.relative = (1 + shift) * sum_error(s.width)}));

  const std::vector<float> kept_mean(got_mean.values().begin(), got_mean.values().end());
  const std::vector<float> kept_rstd(got_rstd.values().begin(), got_rstd.values().end());
  std::vector<double> dx(x.size()), sum_dx = doubles(c.dx0), dw = doubles(c.dw0), db = doubles(c.db0);
  layer_norm_backward_input_ref(dy, x, w, mean, rstd, dx, false);
  layer_norm_backward_input_ref(dy, x, w, mean, rstd, sum_dx, true);
  const double scale = largest(rstd) * largest(dy) * largest(w) * (2 + 4 * shift * shift);
  Guarded<T> got_dx(c.x.size()), in_place_dx(c.dy), got_sum(c.dx0);
  layer_norm_backward_input<T>(c.dy, c.x, c.w, kept_mean, kept_rstd, got_dx.span(), false);
  layer_norm_backward_input<T>(in_place_dx.values(), c.x, c.w, kept_mean, kept_rstd, in_place_dx.span(), false);
  layer_norm_backward_input<T>(c.dy, c.x, c.w, kept_mean, kept_rstd, got_sum.span(), true);
  EXPECT_TRUE(is_close(got_dx, dx, {.absolute = 2 * scale * sum_error(s.width), .relative = kRoundoff<T>}));
  EXPECT_TRUE(same_bits(in_place_dx.values(), got_dx.values()));
  EXPECT_TRUE(is_close(got_sum, sum_dx, {.absolute = (2 * scale + 4) * sum_error(s.width), .relative = kRoundoff<T>}));

  layer_norm_backward_weight_ref(dy, x, mean, rstd, dw, db);
  Guarded<float> got_dw(c.dw0), got_db(c.db0), dw_alone(c.dw0);
  layer_norm_backward_weight<T>(c.dy, c.x, kept_mean, kept_rstd, got_dw.span(), got_db.span());
  layer_norm_backward_weight<T>(c.dy, c.x, kept_mean, kept_rstd, dw_alone.span(), {});
  const double rows = static_cast<double>(s.rows), terms = 4 + rows * largest(dy) * (1 + 2 * shift);
  EXPECT_TRUE(is_close(got_dw, dw, {.absolute = terms * (rows + 4) * sum_error(s.width)}));
  EXPECT_TRUE(same_bits(dw_alone.values(), got_dw.values()));
  EXPECT_TRUE(is_close(got_db, db, {.absolute = (4 + rows * largest(dy)) * (rows + 1) * kRoundoff<float>}));
}

TEST(RmsNorm, MatchesRefOnAwkwardSizes) {
  for_each_isa([] {
    for (const NormSize s : kNormSizes) rms_matches<float>(s), rms_matches<bf16>(s);
  });
}
TEST(LayerNorm, MatchesRefOnAwkwardSizes) {
  for_each_isa([] {
    for (const NormSize s : kNormSizes) layer_matches<float>(s), layer_matches<bf16>(s);
  });
}

TEST(Norm, RowsDoNotDependOnTheirNeighbours) {
  for_each_isa([] {
    constexpr NormSize s = {9, 77};
    const NormCase<float> c(s);
    Guarded<float> all(c.x.size()), one(77), layer_all(c.x.size()), layer_one(77);
    rms_norm<float>(c.x, c.w, kEps, all.span(), {});
    layer_norm<float>(c.x, c.w, c.b, kEps, layer_all.span(), {}, {});
    for (size_t r = 0; r < 9; ++r) {
      const auto row = std::span<const float>(c.x).subspan(r * 77, 77);
      rms_norm<float>(row, c.w, kEps, one.span(), {});
      layer_norm<float>(row, c.w, c.b, kEps, layer_one.span(), {}, {});
      EXPECT_TRUE(same_bits(one.values(), all.values().subspan(r * 77, 77)));
      EXPECT_TRUE(same_bits(layer_one.values(), layer_all.values().subspan(r * 77, 77)));
    }
  });
}

TEST(Norm, ThreadsChangeNoBit) {
  for_each_isa([] {
    constexpr NormSize s = {701, 330};
    const NormCase<bf16> c(s);
    const auto run = [&](int threads) {
      struct Results {
        Guarded<bf16> y, z, dx, dz;
        Guarded<float> mean, rstd, r, dw, dv, db;
      };
      const size_t n = c.x.size();
      Results g{Guarded<bf16>(n),      Guarded<bf16>(n),     Guarded<bf16>(n),    Guarded<bf16>(n),
                Guarded<float>(701),   Guarded<float>(701),  Guarded<float>(701), Guarded<float>(c.dw0),
                Guarded<float>(c.dw0), Guarded<float>(c.db0)};
      with_threads(threads, [&] {
        rms_norm<bf16>(c.x, c.w, kEps, g.y.span(), g.r.span());
        layer_norm<bf16>(c.x, c.w, c.b, kEps, g.z.span(), g.mean.span(), g.rstd.span());
        rms_norm_backward_input<bf16>(c.dy, c.x, c.w, g.r.values(), g.dx.span(), false);
        layer_norm_backward_input<bf16>(c.dy, c.x, c.w, g.mean.values(), g.rstd.values(), g.dz.span(), false);
        rms_norm_backward_weight<bf16>(c.dy, c.x, g.r.values(), g.dw.span());
        layer_norm_backward_weight<bf16>(c.dy, c.x, g.mean.values(), g.rstd.values(), g.dv.span(), g.db.span());
      });
      return g;
    };
    auto one = run(1), two = run(2), three = run(3);
    for (auto* other : {&two, &three}) {
      EXPECT_TRUE(same_bits(other->y.values(), one.y.values()) && same_bits(other->z.values(), one.z.values()));
      EXPECT_TRUE(same_bits(other->dx.values(), one.dx.values()) && same_bits(other->dz.values(), one.dz.values()));
      EXPECT_TRUE(same_bits(other->dw.values(), one.dw.values()) && same_bits(other->dv.values(), one.dv.values()));
      EXPECT_TRUE(same_bits(other->db.values(), one.db.values()) && same_bits(other->rstd.values(), one.rstd.values()));
    }
  });
}

// f = Σ dy·y along random directions of x, w and b.
TEST(NormRef, GradientsMatchFiniteDifferences) {
  constexpr size_t kRows = 5, kWidth = 13;
  const auto x = random_values<double>("x", kRows * kWidth, 1, 0.3), w = random_values<double>("w", kWidth);
  const auto b = random_values<double>("b", kWidth), dy = random_values<double>("dy", kRows * kWidth);
  const auto ex = random_values<double>("ex", kRows * kWidth), ew = random_values<double>("ew", kWidth);
  const auto eb = random_values<double>("eb", kWidth);
  const auto along = [](std::vector<double> at, const std::vector<double>& direction, double t) {
    for (size_t i = 0; i < at.size(); ++i) at[i] += t * direction[i];
    return at;
  };
  const auto dot = [](const std::vector<double>& p, const std::vector<double>& q) {
    double sum = 0;
    for (size_t i = 0; i < p.size(); ++i) sum += p[i] * q[i];
    return sum;
  };
  std::vector<double> y(x.size()), mean(kRows), rstd(kRows), dx(x.size()), dw(kWidth), db(kWidth);
  rms_norm_ref(x, w, 1e-3, y, rstd);
  rms_norm_backward_input_ref(dy, x, w, rstd, dx, false);
  rms_norm_backward_weight_ref(dy, x, rstd, dw);
  const auto rms = [&](double tx, double tw) {
    std::vector<double> z(x.size());
    rms_norm_ref(along(x, ex, tx), along(w, ew, tw), 1e-3, z, {});
    return dot(dy, z);
  };
  EXPECT_NEAR(slope([&](double t) { return rms(t, 0); }, 1e-5), dot(dx, ex), 1e-7);
  EXPECT_NEAR(slope([&](double t) { return rms(0, t); }, 1e-5), dot(dw, ew), 1e-7);

  std::fill(dw.begin(), dw.end(), 0.0);
  layer_norm_ref(x, w, b, 1e-3, y, mean, rstd);
  layer_norm_backward_input_ref(dy, x, w, mean, rstd, dx, false);
  layer_norm_backward_weight_ref(dy, x, mean, rstd, dw, db);
  const auto layer = [&](double tx, double tw, double tb) {
    std::vector<double> z(x.size());
    layer_norm_ref(along(x, ex, tx), along(w, ew, tw), along(b, eb, tb), 1e-3, z, {}, {});
    return dot(dy, z);
  };
  EXPECT_NEAR(slope([&](double t) { return layer(t, 0, 0); }, 1e-5), dot(dx, ex), 1e-7);
  EXPECT_NEAR(slope([&](double t) { return layer(0, t, 0); }, 1e-5), dot(dw, ew), 1e-7);
  EXPECT_NEAR(slope([&](double t) { return layer(0, 0, t); }, 1e-5), dot(db, eb), 1e-7);
}

}  // namespace
}  // namespace tern
