// Differences of known rank come back, a cut loses exactly the tail of the singular values, and what no adapter holds is named.
#include "adapt/extract.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/rng.h"
#include "formats/format_test_support.h"
#include "kernels/lapack/product.h"
#include "kernels/lapack/svd.h"
#include "model/adapter_files.h"
#include "model/model_testing.h"

namespace tern {
namespace {

using Numbers = std::vector<double>;

Numbers drawn_numbers(int64_t count, uint64_t seed) {
  Numbers x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = random_normal({seed, 3}, i);
  return x;
}
double squares_of(const Numbers& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return sum;
}
Numbers less(Numbers x, const Numbers& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] -= y[i];
  return x;
}
Numbers product_of(const AdapterMatrix& m) { return product(m.b, m.a, m.out, m.rank, m.in); }

// A tiny model with adapters of `rank` on the targets, and another whose matrices differ from it by products of that rank.
struct TwoModels {
  Arena arena;
  ModelSpec spec, adapted;
  ModelWeights base, tuned;
  explicit TwoModels(const std::string& family, int64_t rank, const std::vector<std::string>& targets = {})
      : spec(model_spec(tiny_config(family))) {
    PeftConfig config;
    config.rank = rank, config.targets.names = targets, config.targets.all_linear = targets.empty();
    adapted = with_adapters(spec, config, "test");
    base = random_weights(spec, DType::f64, arena, 5);
    tuned = random_weights(spec, DType::f64, arena, 5);
  }
  // Changes the parameter by a matrix of this rank.
  void change(const std::string& parameter, int64_t rank, uint64_t seed) {
    for_each_parameter(spec, tuned, [&](const ParameterInfo& info, Tensor& t) {
      if (info.name != parameter) return;
      const int64_t out = t.rows(), in = t.count() / out;
      const Numbers d = product(drawn_numbers(out * rank, seed), drawn_numbers(rank * in, seed + 1), out, rank, in);
      for (size_t i = 0; i < d.size(); ++i) t.span<double>()[i] += d[i];
    });
  }
  ExtractedAdapter extract() const {
    return extract_adapter({adapted, parameters_of(spec, base)}, {spec, parameters_of(spec, tuned)}, [](int64_t) {});
  }
  // The rows [begin, end) of what `tuned` has beyond `base` in a parameter.
  Numbers difference(const std::string& parameter, int64_t begin, int64_t end) {
    Numbers d;
    std::vector<Tensor> both;
    for (ModelWeights* w : {&base, &tuned})
      for_each_parameter(spec, *w, [&](const ParameterInfo& info, Tensor& t) {
        if (info.name == parameter) both.push_back(t.rows_view(begin, end));
      });
    for (size_t i = 0; i < both[0].span<double>().size(); ++i)
      d.push_back(both[1].span<double>()[i] - both[0].span<double>()[i]);
    return d;
  }
};

TEST(CutDifference, GivesAMatrixOfItsRankBack) {
  for (const auto& [out, in] : {std::pair<int64_t, int64_t>{9, 7}, {7, 31}, {33, 1}, {1, 5}}) {
    const int64_t rank = std::min<int64_t>({3, out, in});
    const Numbers d = product(drawn_numbers(out * rank, 1), drawn_numbers(rank * in, 2), out, rank, in);
    const CutDifference c = cut_difference(d, out, in, rank);
    EXPECT_EQ(c.factors.rank, rank);
    EXPECT_EQ(c.factors.scale, 1);
    EXPECT_LE(squares_of(less(product_of(c.factors), d)), 1e-24 * squares_of(d)) << out << " × " << in;
    EXPECT_NEAR(c.kept_squares, squares_of(d), 1e-12 * squares_of(d));
    EXPECT_NEAR(squares_of(c.factors.a), squares_of(c.factors.b), 1e-12 * squares_of(c.factors.b)) << "√S on each side";
  }
}

TEST(CutDifference, LosesTheTailOfTheSingularValues) {
  const Numbers d = drawn_numbers(13 * 8, 4);
  const ThinSvd svd = thin_svd(d, 13, 8);
  for (const int64_t rank : {1, 3, 7, 8, 20}) {
    const CutDifference c = cut_difference(d, 13, 8, rank);
    EXPECT_EQ(c.factors.rank, std::min<int64_t>(rank, 8));
    double tail = 0;
    for (auto i = static_cast<size_t>(rank); i < svd.s.size(); ++i) tail += svd.s[i] * svd.s[i];
    EXPECT_NEAR(squares_of(less(product_of(c.factors), d)), tail, 1e-12 * squares_of(d)) << rank;
    EXPECT_NEAR(c.squares - c.kept_squares, tail, 1e-12 * squares_of(d)) << rank;
  }
}

TEST(Extract, HoldsTheDifferenceOfEachMatrixAndNamesTheRest) {
  TwoModels m("llama", 3);
  m.change("layers.0.attention.out.weight", 3, 11);
  m.change("layers.1.mlp.up.weight", 2, 12);  // gate and up, each of rank 2
  m.change("layers.1.mlp.norm.weight", 1, 13);
  const ExtractedAdapter e = m.extract();
  ASSERT_EQ(e.matrices.size(), 3);
  const auto expect_back = [&](const std::string& module, const Numbers& d) {
    const AdapterMatrix& a = e.matrices.at(module);
    EXPECT_EQ(a.rank, 3);
    EXPECT_LE(squares_of(less(product_of(a), d)), 1e-24 * squares_of(d)) << module;
  };
  const int64_t width = 24, hidden = 20;
  expect_back("model.layers.0.self_attn.o_proj", m.difference("layers.0.attention.out.weight", 0, width));
  expect_back("model.layers.1.mlp.gate_proj", m.difference("layers.1.mlp.up.weight", 0, hidden));
  expect_back("model.layers.1.mlp.up_proj", m.difference("layers.1.mlp.up.weight", hidden, 2 * hidden));
  EXPECT_EQ(e.same, 2 * 7 - 3);
  EXPECT_NEAR(e.whole().share(), 1, 1e-12);
  ASSERT_EQ(e.left_out.size(), 1);
  EXPECT_EQ(e.left_out[0], "model.layers.1.post_attention_layernorm.weight");
}

// GPT-2's files hold queries, keys and values as one matrix, transposed; other matrices than the targets are named.
TEST(Extract, FollowsTheTargets) {
  TwoModels m("gpt2", 4, {"c_attn"});
  m.change("layers.0.attention.qkv.weight", 9, 21);
  m.change("layers.1.mlp.down.weight", 1, 22);
  const ExtractedAdapter e = m.extract();
  ASSERT_EQ(e.matrices.size(), 1);
  ASSERT_EQ(e.cuts.size(), 1);
  const Numbers d = m.difference("layers.0.attention.qkv.weight", 0, 3 * 24);
  const ThinSvd svd = thin_svd(d, 3 * 24, 24);
  double kept = 0;
  for (size_t i = 0; i < 4; ++i) kept += svd.s[i] * svd.s[i];
  EXPECT_NEAR(e.cuts[0].share(), kept / squares_of(d), 1e-12);
  EXPECT_NEAR(squares_of(less(product_of(e.matrices.begin()->second), d)), squares_of(d) - kept, 1e-11 * squares_of(d));
  EXPECT_EQ(e.matrices.begin()->first, "transformer.h.0.attn.c_attn");
  ASSERT_EQ(e.left_out.size(), 1);
  EXPECT_EQ(e.left_out[0], "transformer.h.1.mlp.c_proj.weight");
}

TEST(Extract, EqualModelsGiveNothing) {
  const ExtractedAdapter e = TwoModels("llama", 2).extract();
  EXPECT_TRUE(e.matrices.empty() && e.cuts.empty() && e.left_out.empty());
  EXPECT_EQ(e.same, 2 * 7);
  EXPECT_EQ(e.whole().share(), 1);
}

TEST(Extract, RefusesUnlikeModelsAndNumbersThatAreNotFinite) {
  HfConfig config = tiny_config("llama");
  const ModelSpec base = model_spec(config);
  EXPECT_NO_THROW(require_same_parameters(base, base));
  config.intermediate_size = 22;
  const auto unlike = [&](std::string_view words) {
    return throws(ErrorKind::bad_file, words, [&] { require_same_parameters(base, model_spec(config)); });
  };
  EXPECT_TRUE(unlike("'layers.0.mlp.up.weight' has shape (40, 24) in the base, has shape (44, 24) in"));
  config = tiny_config("llama"), config.num_hidden_layers = 3;
  EXPECT_TRUE(unlike("is missing in the base, has shape"));
  config.num_hidden_layers = 1;
  EXPECT_TRUE(unlike("in the base, is missing in"));
  TwoModels m("llama", 2);
  for_each_parameter(m.spec, m.tuned, [&](const ParameterInfo& info, Tensor& t) {
    if (info.name == "layers.0.mlp.down.weight") t.span<double>()[5] = std::numeric_limits<double>::infinity();
  });
  EXPECT_TRUE(throws(ErrorKind::bad_file, "model.layers.0.mlp.down_proj", [&] { m.extract(); }));
}

}  // namespace
}  // namespace tern
