#include "model/sparse_mlp.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "model/model_testing.h"
#include "model/neuron_file.h"
#include "store/scratch_testing.h"

namespace tern {
namespace {

constexpr int kFirstMlp = 2;  // unit

// A model's neurons in a file in memory, and a cache that brings them.
struct NeuronsOfModel {
  NeuronsOfModel(const ModelSpec& spec, const ModelWeights& weights, DType dtype, NeuronLayout layout,
                 WindowSettings window)
      : tables(neuron_tables(spec, dtype, layout, 64)), file(tables.bytes) {
    write_neurons(spec, weights, dtype, tables, file);
    const RecordSettings settings{.window = window, .threads = 2};
    const auto bytes = static_cast<size_t>(RecordCache::bytes_for(tables.tables, settings, 64));
    memory.reset(std::aligned_alloc(64, bytes));
    cache = std::make_unique<RecordCache>(file, tables.tables, settings,
                                          std::span(static_cast<std::byte*>(memory.get()), bytes));
  }
  BringNeurons bring(int table) {
    return [this, table](std::span<const int> neurons) {
      cache->want(table, neurons);
      at.clear();
      for (const int i : neurons) at.push_back(cache->record(table, i));
      return std::span<const std::byte* const>(at);
    };
  }
  NeuronTables tables;
  MemoryScratch file;
  std::unique_ptr<void, decltype(&std::free)> memory{nullptr, &std::free};
  std::unique_ptr<RecordCache> cache;
  std::vector<const std::byte*> at;
};

float as_given(DType dtype, double x) {
  return dtype == DType::bf16 ? to_float(to_bf16(static_cast<float>(x))) : static_cast<float>(x);
}

// The sum over all neurons, zeros included: for each element of y by itself, neurons ascending.
std::vector<float> all_neurons(const MlpWeights& w, DType dtype, std::span<const float> n_TD, const Tensor& x) {
  const int64_t D = w.up.in, F = w.up.out;
  const auto bias = [](const Tensor& b, int64_t i) { return b.empty() ? 0.0f : static_cast<float>(element(b, i)); };
  std::vector<float> y;
  for (int64_t t = 0; t < x.rows(); ++t) {
    std::vector<float> a;
    for (int64_t i = 0; i < F; ++i) {
      float chain[8] = {};
      for (int64_t d = 0; d < D; ++d)
        chain[d % 8] += static_cast<float>(element(dense_rows(w.up), i * D + d)) * n_TD[static_cast<size_t>(t * D + d)];
      const float even = (chain[0] + chain[4]) + (chain[2] + chain[6]),
                  odd = (chain[1] + chain[5]) + (chain[3] + chain[7]);
      a.push_back(std::max((even + odd) + bias(w.up.bias, i), 0.0f));
    }
    for (int64_t d = 0; d < D; ++d) {
      float sum = 0;
      for (int64_t i = 0; i < F; ++i)
        sum += a[static_cast<size_t>(i)] * static_cast<float>(element(dense_rows(w.down), d * F + i));
      if (!w.down.bias.empty()) sum += bias(w.down.bias, d);
      y.push_back(as_given(dtype, static_cast<float>(element(x, t * D + d)) + as_given(dtype, sum)));
    }
  }
  return y;
}

ModelSpec opt_spec(bool biases) {
  HfConfig config = tiny_config("opt");
  config.mlp_bias = biases;
  config.intermediate_size = 53;
  return model_spec(config);
}

class SparseMlp : public testing::TestWithParam<std::tuple<DType, NeuronLayout, bool>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  const ModelSpec spec = opt_spec(std::get<2>(GetParam()));
  const MlpSpec& mlp = std::get<MlpSpec>(spec.units[kFirstMlp].spec);
  Arena arena;
  ModelWeights weights = random_weights(spec, dtype(), arena, 5);
  MlpWeights& w = std::get<MlpWeights>(weights.units[kFirstMlp]);
  const Compute compute{.arena = arena};
  Tensor x = arena.allocate(dtype(), {6, mlp.width}, MemoryClass::activations);

  void SetUp() override { fill_normal(x, 1.0, 11); }
  void expect_bits(const Tensor& y, const std::vector<float>& want) {
    ASSERT_EQ(y.count(), std::ssize(want));
    for (int64_t i = 0; i < y.count(); ++i) {
      const auto got = static_cast<float>(element(y, i));
      ASSERT_EQ(0, std::memcmp(&got, &want[static_cast<size_t>(i)], sizeof got))
          << i << ": " << got << ", want " << want[static_cast<size_t>(i)];
    }
  }
};

TEST_P(SparseMlp, ActiveNeuronsFromAFileHaveTheBitsOfAllNeurons) {
  NeuronsOfModel neurons(spec, weights, dtype(), std::get<1>(GetParam()), {.uses = 2, .slots = 53});
  const std::vector<float> n = mlp_inputs(mlp, w.norm, x, compute);
  std::vector<int> chosen;
  int64_t left_out = 0;
  const ChooseNeurons exact = [&](std::span<const float> row) {
    chosen = active_neurons(w.up, row);
    left_out += w.up.out - std::ssize(chosen);
    return std::span<const int>(chosen);
  };
  const Tensor y = sparse_mlp_forward(mlp, w, x, exact, neurons.bring(0), compute);
  expect_bits(y, all_neurons(w, dtype(), n, x));
  EXPECT_GT(left_out, w.up.out);
  EXPECT_GT(neurons.cache->counts().records.hits, 0);
  // Neurons that a predictor names beside them change nothing.
  const ChooseNeurons every_third_too = [&](std::span<const float> row) {
    const std::vector<int> active = active_neurons(w.up, row);
    chosen.clear();
    for (int i = 0; i < w.up.out; ++i)
      if (i % 3 == 0 || std::ranges::binary_search(active, i)) chosen.push_back(i);
    return std::span<const int>(chosen);
  };
  EXPECT_TRUE(same_bits(sparse_mlp_forward(mlp, w, x, every_third_too, neurons.bring(0), compute), y));
}

TEST_P(SparseMlp, IsNearTheEnginesDenseProduct) {
  NeuronsOfModel neurons(spec, weights, dtype(), std::get<1>(GetParam()), {.uses = 2, .slots = 53});
  std::vector<int> chosen;
  const ChooseNeurons exact = [&](std::span<const float> row) {
    chosen = active_neurons(w.up, row);
    return std::span<const int>(chosen);
  };
  const std::vector<int32_t> tokens(6, 1);
  const Rows rows = make_rows(tokens, {0, 6}, nullptr);
  const Tensor dense = unit_forward(spec, kFirstMlp, weights.units[kFirstMlp], rows, x, nullptr, nullptr, compute);
  EXPECT_LE(relative_error(sparse_mlp_forward(mlp, w, x, exact, neurons.bring(0), compute), dense),
            dtype() == DType::f32 ? 1e-6 : 4e-3);
}

INSTANTIATE_TEST_SUITE_P(TypesAndLayouts, SparseMlp,
                         testing::Combine(testing::Values(DType::f32, DType::bf16),
                                          testing::Values(NeuronLayout::bundled, NeuronLayout::apart),
                                          testing::Bool()));

// Products 0·w of neurons that are left out are −0 as often as not, biases and x may be −0.
TEST(SparseMlpZeros, NoNeuronAtAllHasTheBitsOfAllNeurons) {
  const ModelSpec spec = opt_spec(true);
  const auto& mlp = std::get<MlpSpec>(spec.units[kFirstMlp].spec);
  Arena arena;
  const Compute compute{.arena = arena};
  ModelWeights weights = random_weights(spec, DType::f32, arena, 6);
  auto& w = std::get<MlpWeights>(weights.units[kFirstMlp]);
  for (int64_t i = 0; i < w.up.out; ++i) set_element(w.up.bias, i, -100);
  for (int64_t d = 0; d < w.up.in; ++d) set_element(w.down.bias, d, -0.0);
  const Tensor x = arena.allocate(DType::f32, {1, mlp.width}, MemoryClass::activations);
  fill_normal(x, 1.0, 12);
  set_element(x, 3, -0.0);
  const ChooseNeurons none = [](std::span<const float>) { return std::span<const int>(); };
  const BringNeurons nothing = [](std::span<const int>) { return std::span<const std::byte* const>(); };
  const Tensor y = sparse_mlp_forward(mlp, w, x, none, nothing, compute);
  const std::vector<float> n = mlp_inputs(mlp, w.norm, x, compute), want = all_neurons(w, DType::f32, n, x);
  EXPECT_TRUE(active_neurons(w.up, n).empty());
  EXPECT_EQ(0, std::memcmp(y.data(), want.data(), want.size() * sizeof(float)));
}

TEST(NeuronFile, HoldsRowsOfUpAndColumnsOfDown) {
  const ModelSpec spec = opt_spec(true);
  Arena arena;
  const ModelWeights weights = random_weights(spec, DType::f32, arena, 7);
  for (const NeuronLayout layout : {NeuronLayout::bundled, NeuronLayout::apart}) {
    const NeuronTables tables = neuron_tables(spec, DType::f32, layout, 64);
    ASSERT_EQ(tables.units, (std::vector{2, 4}));
    MemoryScratch file(tables.bytes);
    write_neurons(spec, weights, DType::f32, tables, file);
    for (size_t m = 0; m < tables.units.size(); ++m) {
      const auto& w = std::get<MlpWeights>(weights.units[static_cast<size_t>(tables.units[m])]);
      for (int64_t i = 0; i < 53; ++i)
        for (int64_t p = 0; p < 48; ++p) {
          const RecordTable& t = tables.tables[m];
          const size_t a = layout == NeuronLayout::apart && p >= 24 ? 1 : 0;
          const int64_t within = a == 1 ? p - 24 : p, at = t.arrays[a].offset + i * t.arrays[a].bytes + 4 * within;
          float got;
          std::memcpy(&got, file.bytes().data() + at, sizeof got);
          const double want =
              p < 24 ? element(dense_rows(w.up), i * 24 + p) : element(dense_rows(w.down), (p - 24) * 53 + i);
          ASSERT_EQ(got, static_cast<float>(want)) << i << ", " << p;
        }
    }
  }
}

TEST(NeuronFile, RefusesModelsWhoseNeuronsAreNotZero) {
  const auto refusal = [](const char* family) {
    try {
      neuron_tables(model_spec(tiny_config(family)), DType::f32, NeuronLayout::bundled, 4096);
    } catch (const Error& e) { return std::string(e.what()); }
    return std::string();
  };
  EXPECT_NE(refusal("llama").find("layer 0: its MLP has a gate"), std::string::npos);
  EXPECT_NE(refusal("gpt2").find("activation is not relu"), std::string::npos);
  EXPECT_NE(refusal("mixtral").find("experts"), std::string::npos);
  EXPECT_NE(refusal("gpt_neox").find("beside each other"), std::string::npos);
  EXPECT_EQ(refusal("opt"), "");
}

}  // namespace
}  // namespace tern
