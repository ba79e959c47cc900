// Adapters combined as PEFT combines them (dev/golden/combined.py), and what OPCM promises.
#include "adapt/combine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "adapt/adapter_file.h"
#include "adapt/core_svd.h"
#include "adapt/opcm.h"
#include "base/error.h"
#include "base/io.h"
#include "base/rng.h"
#include "base/source_dir_testing.h"
#include "formats/safetensors/safetensors.h"
#include "kernels/lapack/product.h"
#include "kernels/lapack/symmetric_eigen.h"

namespace tern {
namespace {

const std::string kGolden = source_dir() + "/tests/golden/combined/";

std::vector<double> numbers(const TensorView& t) {
  std::vector<double> all(static_cast<size_t>(t.num_elements()));
  for (size_t i = 0; i < all.size(); ++i) {
    if (t.dtype == DType::f64) {
      std::memcpy(&all[i], t.bytes.data() + 8 * i, 8);
    } else {
      float x;
      std::memcpy(&x, t.bytes.data() + 4 * i, 4);
      all[i] = static_cast<double>(x);
    }
  }
  return all;
}
double norm(const std::vector<double>& x) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  return std::sqrt(squares);
}
std::vector<double> delta_of(const AdapterMatrix& m) {
  std::vector<double> d = product(m.b, m.a, m.out, m.rank, m.in);
  for (double& x : d) x *= m.scale;
  return d;
}
void expect_close(const std::vector<double>& got, const std::vector<double>& want, double relative) {
  ASSERT_EQ(got.size(), want.size());
  ASSERT_GT(norm(want), 0);
  std::vector<double> off(got.size());
  for (size_t i = 0; i < got.size(); ++i) off[i] = got[i] - want[i];
  EXPECT_LE(norm(off), relative * norm(want));
}
AdapterMatrices golden(const std::string& name) { return read_adapter_file(kGolden + name).matrices; }
CombineSettings settings(const std::string& method, std::vector<double> weights) {
  return {.combination = *combination_named(method), .weights = std::move(weights)};
}
AdapterMatrix random_adapter(int64_t rank, int64_t out, int64_t in, double scale, uint64_t seed) {
  AdapterMatrix m{rank, out, in, scale, {}, {}};
  for (int64_t i = 0; i < rank * in; ++i) m.a.push_back(random_normal({seed, 1}, static_cast<uint64_t>(i)));
  for (int64_t i = 0; i < rank * out; ++i) m.b.push_back(random_normal({seed, 2}, static_cast<uint64_t>(i)));
  return m;
}

TEST(CombineGolden, NumbersAreThoseOfPeft) {
  const Safetensors expected(kGolden + "expected.safetensors");
  const std::vector<AdapterMatrices> two{golden("one"), golden("two")},
      three{golden("one"), golden("two"), golden("three")};
  struct Case {
    std::string name, method;
    std::vector<double> weights;
    double density = 1;
    int64_t rank = 0;
  };
  const Case cases[] = {{"linear", "linear", {0.7, -1.5}},
                        {"cat", "cat", {0.7, -1.5}},
                        {"ties", "ties", {0.7, -1.5}, 0.4},
                        {"magnitude_prune", "magnitude_prune", {0.7, -1.5}, 0.55},
                        {"ties_frequency", "ties", {0.7, 1.5}, 0.6},
                        {"svd", "svd", {0.7, 1.5, 0.4}, 1, 5},
                        {"ties_svd", "ties_svd", {0.7, 1.5, 0.4}, 0.3, 2},
                        {"magnitude_prune_svd", "magnitude_prune_svd", {0.7, 1.5, 0.4}, 0.5},
                        {"opcm", "opcm", {1, 1, 1}}};
  size_t compared = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    CombineSettings s = settings(c.method, c.weights);
    s.density = c.density, s.rank = c.rank;
    if (c.name == "ties_frequency") s.sign = MajoritySign::frequency;
    const Combined got = combine_adapters(c.weights.size() == 2 ? two : three, s);
    EXPECT_EQ(got.matrices.size(), 2);
    for (const auto& [module, m] : got.matrices) {
      SCOPED_TRACE(module);
      EXPECT_EQ(m.scale, 1);
      const std::string key = c.name + "/" + module + "/";
      if (const auto product = expected.find(key + "BA")) {
        expect_close(delta_of(m), numbers(*product), c.name == "opcm" ? 1e-12 : 1e-5);
        ++compared;
        continue;
      }
      std::vector<double> a = numbers(expected.get(key + "A")), b = numbers(expected.get(key + "B"));
      const auto in = static_cast<size_t>(m.in), rank = static_cast<size_t>(m.rank), all = a.size() / in;
      // PEFT's cat leaves zeros for a module that an adapter lacks.
      a.resize(rank * in);
      std::vector<double> columns;
      for (size_t row = 0; row < static_cast<size_t>(m.out); ++row)
        columns.insert(columns.end(), b.begin() + static_cast<std::ptrdiff_t>(row * all),
                       b.begin() + static_cast<std::ptrdiff_t>(row * all + rank));
      expect_close(m.a, a, 1e-6);
      expect_close(m.b, columns, 1e-6);
      ++compared, ++compared;
    }
  }
  EXPECT_EQ(compared, expected.size());
}

TEST(Combine, SvdIsTheSumAndItsBestCut) {
  std::vector<AdapterMatrices> adapters(2);
  adapters[0]["m"] = random_adapter(3, 9, 7, 0.5, 1), adapters[1]["m"] = random_adapter(2, 9, 7, 2, 2);
  std::vector<double> sum = delta_of(adapters[0]["m"]);
  const std::vector<double> other = delta_of(adapters[1]["m"]);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = 0.3 * sum[i] - 0.2 * other[i];
  CombineSettings s = settings("svd", {0.3, -0.2});
  s.rank = 5;
  const AdapterMatrix whole = combine_adapters(adapters, s).matrices.at("m");
  EXPECT_EQ(whole.rank, 5);
  expect_close(delta_of(whole), sum, 1e-13);
  expect_close(delta_of(combine_adapters(adapters, settings("cat", {0.3, -0.2})).matrices.at("m")), sum, 1e-13);
  s.rank = 2;
  const AdapterMatrix cut = combine_adapters(adapters, s).matrices.at("m");
  const ThinSvd svd = thin_svd(sum, 9, 7);
  std::vector<double> off = delta_of(cut);
  for (size_t i = 0; i < off.size(); ++i) off[i] -= sum[i];
  EXPECT_NEAR(norm(off), norm({svd.s[2], svd.s[3], svd.s[4]}), 1e-12);
  EXPECT_NEAR(std::sqrt(squared_norm(whole)), norm(sum), 1e-12 * norm(sum));
}

TEST(Combine, DareLeavesNumbersOutByCountedDraws) {
  std::vector<AdapterMatrices> adapters(2);
  for (size_t i = 0; i < 2; ++i)
    adapters[i]["m"] = random_adapter(4, 500, 300, 1, i), adapters[i]["n"] = adapters[i]["m"];
  CombineSettings s = settings("dare_linear", {1, 0});
  s.density = 0.3;
  const Combined once = combine_adapters(adapters, s), again = combine_adapters(adapters, s);
  const std::vector<double>&got = once.matrices.at("m").a, &was = adapters[0]["m"].a;
  EXPECT_EQ(got, again.matrices.at("m").a);
  EXPECT_NE(got, once.matrices.at("n").a) << "modules draw alike";
  size_t kept = 0;
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != 0) {
      ++kept;
      EXPECT_DOUBLE_EQ(got[i], was[i] / 0.3);
    }
  const double n = static_cast<double>(got.size());
  EXPECT_NEAR(static_cast<double>(kept), 0.3 * n, 5 * std::sqrt(0.21 * n));
  s.seed = 2;
  EXPECT_NE(got, combine_adapters(adapters, s).matrices.at("m").a);
  s.seed = 1, s.weights = {0, 1};
  const std::vector<double> other = combine_adapters(adapters, s).matrices.at("m").a;
  size_t both = 0;
  for (size_t i = 0; i < got.size(); ++i) both += got[i] != 0 && other[i] != 0;
  EXPECT_NEAR(static_cast<double>(both), 0.09 * n, 5 * std::sqrt(0.09 * 0.91 * n)) << "adapters draw alike";
  s.density = 1, s.weights = {0.5, 0.5};
  const Combined all = combine_adapters(adapters, s), sum = combine_adapters(adapters, settings("linear", {0.5, 0.5}));
  EXPECT_EQ(all.matrices.at("m").b, sum.matrices.at("m").b);
}

// Where one adapter follows another whose change has directions of its own, nothing along them is added.
TEST(Combine, OpcmKeepsItsNormAndTheDirectionsBefore) {
  std::vector<AdapterMatrices> adapters(4);
  for (size_t i = 0; i < 4; ++i) {
    adapters[i]["m"] = random_adapter(3, 16, 12, 0.5, 10 + i);
    if (i != 1) adapters[i]["n"] = random_adapter(2, 5, 12, 1, 20 + i);
  }
  const Combined c = combine_adapters(adapters, settings("opcm", {1, 1, 1, 1}));
  double mean = 0;
  for (const double n : c.norms.each) mean += n / 4;
  EXPECT_NEAR(c.norms.combined, mean, 1e-12 * mean);
  EXPECT_EQ(c.matrices.at("m").rank, 12) << "3 + 3 + 3 + 3, and as many as the matrix is wide";
  // A change that is nothing scales what is there.
  std::vector<AdapterMatrices> with_nothing{adapters[0], adapters[0]};
  for (auto& [path, m] : with_nothing[1]) std::ranges::fill(m.b, 0.0);
  const AdapterMatrices half = combine_adapters(with_nothing, settings("opcm", {1, 1})).matrices;
  std::vector<double> want = delta_of(adapters[0]["m"]);
  for (double& x : want) x /= 2;
  expect_close(delta_of(half.at("m")), want, 1e-12);
  // <u_i·v_iᵀ, added> = 0: what two give, less its share of the first, has no part on the first's diagonal.
  const std::vector<AdapterMatrices> two{adapters[0], adapters[2]};
  const AdapterMatrices merged = combine_adapters(two, settings("opcm", {1, 1})).matrices;
  const std::vector<double> first = delta_of(adapters[0]["m"]), both = delta_of(merged.at("m"));
  const ThinSvd svd = thin_svd(first, 16, 12);
  // both = c·(first + added) with the one factor c of the whole model, seen on the leading direction.
  double factors[3];
  for (int64_t i = 0; i < 3; ++i) {
    double on = 0;
    for (int64_t r = 0; r < 16; ++r)
      for (int64_t k = 0; k < 12; ++k)
        on += svd.u[static_cast<size_t>(r * 12 + i)] * both[static_cast<size_t>(r * 12 + k)] *
              svd.vt[static_cast<size_t>(i * 12 + k)];
    factors[i] = on / svd.s[static_cast<size_t>(i)];
  }
  EXPECT_NEAR(factors[1], factors[0], 1e-12);
  EXPECT_NEAR(factors[2], factors[0], 1e-12);
}

TEST(Combine, RefusesByName) {
  std::vector<AdapterMatrices> adapters(2);
  adapters[0]["q"] = random_adapter(3, 6, 5, 1, 1), adapters[1]["q"] = random_adapter(2, 6, 5, 1, 2);
  const auto refusal = [&](const std::string& method) -> std::string {
    try {
      combine_adapters(adapters, settings(method, {1, 1}));
    } catch (const Error& e) { return e.what(); }
    return "accepted";
  };
  EXPECT_NE(refusal("ties").find("q: has rank 3 in one adapter and 2 in another"), std::string::npos);
  EXPECT_EQ(refusal("ties_svd"), "accepted");
  adapters[1]["q"] = random_adapter(3, 6, 4, 1, 2);
  EXPECT_NE(refusal("cat").find("different models"), std::string::npos);
}

TEST(CombineFiles, AreReadAgainAsTheyWereWritten) {
  const std::string dir = testing::TempDir() + "combined_written";
  const std::vector<AdapterFile> files{read_adapter_file(kGolden + "one"), read_adapter_file(kGolden + "two"),
                                       read_adapter_file(kGolden + "three")};
  EXPECT_EQ(files[2].matrices.at("model.layers.1.mlp.down_proj").scale, 2.5);
  std::vector<AdapterMatrices> adapters;
  for (const AdapterFile& f : files) adapters.push_back(f.matrices);
  const Combined c = combine_adapters(adapters, settings("cat", {1, 1, 1}));
  write_adapter_file(c.matrices, combined_config(files, c.matrices), combined_dtype(files), dir, real_io());
  const AdapterFile again = read_adapter_file(dir);
  EXPECT_EQ(again.config.rank, 10);
  for (const auto& [module, m] : c.matrices) {
    EXPECT_EQ(again.matrices.at(module).rank, m.rank) << module;
    EXPECT_EQ(again.matrices.at(module).scale, 1) << module;
    for (size_t i = 0; i < m.a.size(); ++i)
      ASSERT_EQ(again.matrices.at(module).a[i], static_cast<double>(static_cast<float>(m.a[i])));
    EXPECT_EQ(again.matrices.at(module).b, m.b);
  }
  EXPECT_EQ(again.matrices.at("model.layers.0.self_attn.q_proj").rank, 7) << "of another rank than the rest";
}

}  // namespace
}  // namespace tern
