// Branches of low rank beside weights: what they compute, and where they begin. Their gradients are in gradient_test.cpp,
// their bytes in cost_test.cpp.

#include "model/adapter_files.h"
#include "model/allocate_weights.h"
#include "model/initial_weights.h"
#include "model/linear.h"
#include "model/model_testing.h"
#include "model/ops.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

// weight += scale·b·a, branch by branch; with magnitudes each row then gets its own length.
void merge(Linear& linear) {
  for (const Branch& b : linear.branches)
    for (int64_t n = b.row_begin; n < b.row_end; ++n) {
      const Tensor& w = dense_rows(linear);
      double was = 0, is = 0;
      for (int64_t k = 0; k < linear.in; ++k) was += std::pow(element(w, n * linear.in + k), 2);
      for (int64_t k = 0; k < linear.in; ++k) {
        double sum = 0;
        for (int64_t r = 0; r < b.rank; ++r)
          sum += element(b.b, (n - b.row_begin) * b.rank + r) * element(b.a, r * linear.in + k);
        const int64_t at = n * linear.in + k;
        set_element(dense_rows(linear), at, element(dense_rows(linear), at) + b.scale * sum);
        is += std::pow(element(dense_rows(linear), at), 2);
      }
      if (!b.has_magnitude) continue;
      const double factor = (std::sqrt(was) + element(b.magnitude, n - b.row_begin)) / std::sqrt(is);
      for (int64_t at = n * linear.in; at < (n + 1) * linear.in; ++at) set_element(w, at, factor * element(w, at));
    }
  linear.branches.clear();
}

TEST(Adapters, GiveWhatTheMergedWeightsGive) {
  for_each_dense_variant([](const std::string& variant, const ModelSpec& full) {
    SCOPED_TRACE(variant);
    for (const ModelSpec& spec :
         {with_adapters(full, 3, 0.7), with_uneven_adapters(full), with_magnitudes(with_adapters(full, 3, 0.7)),
          with_magnitudes(with_uneven_adapters(full))}) {
      for (const auto& [dtype, bound] : {std::pair{DType::f64, 1e-12}, {DType::f32, 1e-4}, {DType::bf16, 0.2}}) {
        Arena arena;
        arena.set_poison(true);
        const std::vector<int32_t> tokens = random_tokens(9, spec.vocab, 1);
        const RopeTable rope = rope_table(spec, 16, 16);
        const Rows rows = make_rows(tokens, {0, 4, 9}, &rope);
        ModelWeights weights = random_weights(spec, dtype, arena, 3);
        for_each_adapter(spec, weights,
                         [](const ParameterInfo& info, Tensor& t) { fill_normal(t, 0.1, hash_name(info.name)); });
        const Tensor exact = model_forward(spec, weights, rows, nullptr, {arena, Multiply::exact});
        const Tensor fast = model_forward(spec, weights, rows, nullptr, {arena, Multiply::fast});
        for_each_linear(spec, weights, [](const ParameterInfo&, Linear& linear) { merge(linear); });
        const Tensor want = model_forward(full, weights, rows, nullptr, {arena, Multiply::exact});
        EXPECT_LE(relative_error(exact, want), bound) << name_of(dtype);
        EXPECT_LE(relative_error(fast, want), bound) << name_of(dtype);
      }
    }
  });
}

// A of means is A of each input over their number, rows of B count several times, and so they are in a file.
void expect_expansion(int64_t pool, int64_t repeat) {
  SCOPED_TRACE(std::to_string(pool) + ", " + std::to_string(repeat));
  const ModelSpec plain = with_adapters(model_spec(tiny_config("llama")), 3, 0.7);
  const ModelSpec spec = with_balance(plain, pool, repeat);
  for (const auto& [dtype, bound] : {std::pair{DType::f64, 1e-13}, {DType::f32, 1e-5}, {DType::bf16, 0.1}}) {
    Arena arena;
    arena.set_poison(true);
    ModelWeights pooled = random_weights(spec, dtype, arena, 3), expanded = random_weights(plain, dtype, arena, 3);
    std::vector<Tensor*> from = trained_tensors(spec, pooled), to = trained_tensors(plain, expanded);
    const std::vector<ParameterInfo> infos = trained_parameters(spec);
    for (size_t i = 0; i < infos.size(); ++i) {
      fill_normal(*from[i], 0.1, i);
      const bool is_a = infos[i].name.ends_with(".a");
      const int64_t r = 3, times = is_a ? pool : repeat;
      ASSERT_EQ(to[i]->count(), times * from[i]->count()) << infos[i].name;
      for (int64_t k = 0; k < to[i]->count(); ++k)
        set_element(*to[i], k,
                    is_a ? element(*from[i], k / pool) / static_cast<double>(pool)
                         : element(*from[i], k / r / repeat * r + k % r));
    }
    const std::vector<int32_t> tokens = random_tokens(9, spec.vocab, 1);
    const RopeTable rope = rope_table(spec, 16, 16);
    const Rows rows = make_rows(tokens, {0, 4, 9}, &rope);
    for (const Multiply multiply : {Multiply::exact, Multiply::fast})
      EXPECT_LE(relative_error(model_forward(spec, pooled, rows, nullptr, {arena, multiply}),
                               model_forward(plain, expanded, rows, nullptr, {arena, multiply})),
                bound)
          << name_of(dtype);
  }
}

TEST(Adapters, ThatReadMeansAreTheirExpansions) { expect_expansion(4, 1); }
TEST(Adapters, OfRepeatedRowsAreTheirExpansions) {
  expect_expansion(2, 2);
  expect_expansion(1, 4);
  expect_expansion(4, 2);
}

// What other programs read of Q-BLoRA, and of IR-QLoRA (its elastic connection): in f64 their product is the branch's within 1e-15 of it.
TEST(Adapters, PlainExportsAreTheBranch) {
  struct Form {
    int64_t pool, repeat, r;
    bool elastic;
  };
  const int64_t out = 48, in = 64, rows = 20;
  for (const auto& [pool, repeat, r, elastic] : {Form{2, 2, 6, false},
                                                 {8, 2, 6, false},
                                                 {4, 4, 6, false},
                                                 {1, 2, 6, false},
                                                 {1, 1, 8, true},
                                                 {1, 1, 6, true},
                                                 {1, 1, 5, true}}) {
    Arena arena;
    arena.set_poison(true);
    const auto random = [&](Shape shape, uint64_t seed) {
      const Tensor t = arena.allocate(DType::f64, shape, MemoryClass::weights);
      fill_normal(t, 0.3, seed);
      return t;
    };
    Linear balanced{.weight = DenseWeight{arena.zeros(DType::f64, {out, in}, MemoryClass::weights)},
                    .bias = {},
                    .out = out,
                    .in = in,
                    .branches = {}};
    Linear plain = balanced;
    const Branch b{.module = AdaptedModule::out,
                   .row_begin = 0,
                   .row_end = out,
                   .rank = r,
                   .scale = 0.7,
                   .a = random({r, in / pool}, 1),
                   .b = random({out / repeat, r}, 2),
                   .pool = pool,
                   .repeat = repeat,
                   .is_elastic = elastic > 0,
                   .elastic = random({2}, 6)};
    balanced.branches = {b};
    plain.branches = {written_out(b, arena)};
    EXPECT_EQ(plain.branches[0].pool * plain.branches[0].repeat, 1);
    EXPECT_FALSE(plain.branches[0].is_elastic);
    const Tensor x = random({rows, in}, 3), y = random({rows, out}, 4), want = random({rows, out}, 5);
    linear_forward(balanced, x, want, {arena});
    linear_forward(plain, x, y, {arena});
    double error = 0, norm = 0;
    for (int64_t i = 0; i < y.count(); ++i)
      error += std::pow(element(y, i) - element(want, i), 2), norm += std::pow(element(want, i), 2);
    EXPECT_LE(std::sqrt(error / norm), 1e-15) << pool << ", " << repeat << ", " << r;
    EXPECT_GT(norm, 1);
  }
}

TEST(Adapters, BeginWithoutEffectAndAsLoRADoes) {
  const ModelSpec full = model_spec(tiny_config("llama")), spec = with_adapters(full, 4);
  Arena arena;
  ModelWeights weights = random_weights(spec, DType::f32, arena, 3);
  initialize_adapters(spec, weights, 7);
  const std::vector<int32_t> tokens = random_tokens(9, spec.vocab, 1);
  const RopeTable rope = rope_table(spec, 16, 16);
  const Rows rows = make_rows(tokens, {0, 4, 9}, &rope);
  const Tensor with = model_forward(spec, weights, rows, nullptr, {arena});
  int64_t matrices = 0;
  for_each_adapter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    double largest = 0, squares = 0;
    for (int64_t i = 0; i < t.count(); ++i) {
      largest = std::max(largest, std::abs(element(t, i)));
      squares += element(t, i) * element(t, i);
    }
    ++matrices;
    if (info.name.ends_with(".b")) {
      EXPECT_EQ(largest, 0) << info.name;
      return;
    }
    const double bound = 1 / std::sqrt(static_cast<double>(info.shape[1]));
    EXPECT_LE(largest, bound) << info.name;
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(t.count())), bound / std::sqrt(3.0), 0.25 * bound) << info.name;
  });
  EXPECT_EQ(matrices, 2 * 2 * 7) << "a and b of q, k, v, out, gate, up and down in two layers";
  for_each_linear(spec, weights, [](const ParameterInfo&, Linear& linear) { linear.branches.clear(); });
  EXPECT_TRUE(same_bits(with, model_forward(full, weights, rows, nullptr, {arena})));
}

// Untrained magnitudes change no bit either: they are held as differences from the rows' own lengths.
TEST(Adapters, WithMagnitudesBeginWithoutEffect) {
  const ModelSpec full = model_spec(tiny_config("llama")), spec = with_magnitudes(with_adapters(full, 4));
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    Arena arena;
    ModelWeights weights = random_weights(spec, dtype, arena, 3);
    initialize_adapters(spec, weights, 7);
    const std::vector<int32_t> tokens = random_tokens(9, spec.vocab, 1);
    const RopeTable rope = rope_table(spec, 16, 16);
    const Rows rows = make_rows(tokens, {0, 4, 9}, &rope);
    const Tensor with = model_forward(spec, weights, rows, nullptr, {arena});
    for_each_linear(spec, weights, [](const ParameterInfo&, Linear& linear) { linear.branches.clear(); });
    EXPECT_TRUE(same_bits(with, model_forward(full, weights, rows, nullptr, {arena}))) << name_of(dtype);
  }
}

// What a row leaves out depends on its place in the step alone: rows together and row by row are the same bits.
TEST(Adapters, DropoutIsCountedByRowsOfTheStep) {
  ModelSpec spec = with_adapters(model_spec(tiny_config("llama")), 3, 0.7);
  for (Unit& unit : spec.units)
    for (ModuleAdapter& a : unit.adapters) a.dropout = 0.4;
  Arena arena;
  arena.set_poison(true);
  const ModelWeights weights = random_weights(spec, DType::f32, arena, 3);
  const Linear& linear = std::get<AttentionWeights>(weights.units[1]).qkv;
  const Tensor x = arena.allocate(DType::f32, {13, linear.in}, MemoryClass::activations),
               y = arena.allocate(DType::f32, {13, linear.out}, MemoryClass::activations),
               again = arena.allocate(DType::f32, {13, linear.out}, MemoryClass::activations);
  fill_normal(x, 1, 5);
  Compute c{.arena = arena, .multiply = Multiply::exact, .dropout = DropoutPlace{9, 4, 100}};
  linear_forward(linear, x, y, c);
  for (const auto& [begin, end] : {std::pair{0, 5}, {5, 6}, {6, 13}}) {
    c.dropout->first_row = 100 + begin;
    linear_forward(linear, x.rows_view(begin, end), again.rows_view(begin, end), c);
  }
  EXPECT_TRUE(same_bits(again, y));
  // Two parts of a batch that do not touch, as one rank of a ring has them: rows 0 to 2 and 9 to 11 of 13.
  c.dropout = DropoutPlace{9, 4, 100, 6};
  const Tensor parts = arena.allocate(DType::f32, {6, linear.in}, MemoryClass::activations),
               of_parts = arena.allocate(DType::f32, {6, linear.out}, MemoryClass::activations);
  for (const int64_t r : {0, 3}) ops::copy(x.rows_view(3 * r, 3 * r + 3), parts.rows_view(r, r + 3));
  linear_forward(linear, parts, of_parts, c);
  for (const int64_t r : {0, 3})
    EXPECT_TRUE(same_bits(of_parts.rows_view(r, r + 3), y.rows_view(3 * r, 3 * r + 3))) << r;
  for (const DropoutPlace place : {DropoutPlace{10, 4, 100}, {9, 5, 100}, {9, 4, 101}}) {
    c.dropout = place;
    linear_forward(linear, x, again, c);
    EXPECT_GT(relative_error(again, y), 0.01) << "seed, step and row must all count";
  }
  // The share, and its mean.
  const Tensor ones = arena.allocate(DType::f64, {301, 77}, MemoryClass::activations);
  for (int64_t i = 0; i < ones.count(); ++i) set_element(ones, i, 1);
  ops::drop(0.4, {1, 2}, 3, 4, ones);
  double kept = 0;
  for (int64_t i = 0; i < ones.count(); ++i) {
    kept += element(ones, i) != 0;
    if (element(ones, i) != 0) { EXPECT_DOUBLE_EQ(element(ones, i), 1 / 0.6); }
  }
  EXPECT_NEAR(kept / static_cast<double>(ones.count()), 0.6, 5 * std::sqrt(0.24 / static_cast<double>(ones.count())));
}

TEST(Adapters, StandBesideTheRowsOfTheirModule) {
  using enum AdaptedModule;
  ModelSpec spec = model_spec(tiny_config("llama"));
  spec.units[1].adapters = {{value, 3, 0.5}, {key, 2, 0.25}};
  spec.units[2].adapters = {{up, 5, 2}};
  spec.units[3].adapters = {{query_key_value, 1, 1}};
  const ModelWeights weights = empty_weights(spec);
  const AttentionSpec& a = *attention_of(spec.units[1]);
  const int64_t queries = a.heads * a.head_dim, keys = a.kv_heads * a.head_dim, hidden = mlp_of(spec.units[2])->hidden;
  const auto expect = [](const Branch& b, AdaptedModule module, int64_t begin, int64_t end, int64_t rank,
                         double scale) {
    EXPECT_EQ(b.module, module);
    EXPECT_EQ(b.row_begin, begin);
    EXPECT_EQ(b.row_end, end);
    EXPECT_EQ(b.rank, rank);
    EXPECT_EQ(b.scale, scale);
  };
  const auto& first = std::get<AttentionWeights>(weights.units[1]);
  ASSERT_EQ(first.qkv.branches.size(), 2);
  expect(first.qkv.branches[0], key, queries, queries + keys, 2, 0.25);
  expect(first.qkv.branches[1], value, queries + keys, queries + 2 * keys, 3, 0.5);
  EXPECT_TRUE(first.out.branches.empty());
  const auto& mlp = std::get<MlpWeights>(weights.units[2]);
  ASSERT_EQ(mlp.up.branches.size(), 1);
  expect(mlp.up.branches[0], up, hidden, 2 * hidden, 5, 2);
  expect(std::get<AttentionWeights>(weights.units[3]).qkv.branches.at(0), query_key_value, 0, queries + 2 * keys, 1, 1);
  std::vector<std::string> names;
  for (const ParameterInfo& info : trained_parameters(spec))
    if (info.name.find(".branches.") != std::string::npos) names.push_back(info.name);
  EXPECT_EQ(names.at(2), "layers.0.attention.qkv.branches.value.a");
  EXPECT_EQ(names.back(), "layers.1.attention.qkv.branches.query_key_value.b");
}

TEST(Adapters, TrainedParametersAreTheirsAlone) {
  const ModelSpec full = model_spec(tiny_config("llama")), plain = with_adapters(full, 4);
  for (const ModelSpec& spec : {plain, with_elastic(plain)}) {
    int64_t trained = 0;
    for (const Unit& unit : spec.units) trained += unit_cost(unit, {}).trained;
    int64_t elements = 0;
    for (const ParameterInfo& info : trained_parameters(spec)) {
      EXPECT_NE(info.name.find(".branches."), std::string::npos) << info.name;
      EXPECT_TRUE(info.fragments.empty());
      elements += info.shape.count();
    }
    EXPECT_EQ(elements, trained);
    EXPECT_EQ(parameters(spec).size(), parameters(full).size());
  }
  EXPECT_TRUE(trained_parameters(with_adapters(full, 0)).empty());
  EXPECT_EQ(trained_parameters(full).size(), parameters(full).size());
}

}  // namespace
}  // namespace tern
