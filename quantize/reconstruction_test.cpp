// Block-wise reconstruction: it finds tables and scales again from a unit's output, keeps codes as they are, and never makes a unit worse.
#include "quantize/reconstruction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/dtype.h"
#include "base/rng.h"
#include "base/threads_testing.h"
#include "formats/hf/config.h"
#include "model/model_testing.h"
#include "model/unit.h"
#include "quantize/layer_coder.h"

namespace tern {
namespace {

constexpr int64_t kWindow = 24, kTokens = 500,
                  kMany = 4600;  // the last window is shorter; a step takes all, or 86 of 192

// A random model of a family; one unit's matrices become the numbers of their codes, and what it gives for random rows is to be met.
struct Exercise {
  WeightType type;
  int unit;
  ModelSpec spec;
  Arena arena;
  ModelWeights weights;
  UnitCodes codes;
  std::vector<int32_t> tokens;
  RopeTable rope;
  Tensor x, target;

  Exercise(const std::string& family, WeightType with, int of_unit, int64_t num_tokens = kTokens)
      : type(with), unit(of_unit) {
    HfConfig c = tiny_config(family);
    c.hidden_size = 32, c.intermediate_size = 64, c.head_dim = 8;
    if (c.expert_size > 0) c.expert_size = 32;
    spec = model_spec(c);
    weights = random_weights(spec, DType::f32, arena, 5);
    for_each_linear(spec, weights, [&](const ParameterInfo& info, Linear& linear) {
      if (info.unit == unit && has_codes(spec, info)) codes.emplace(info.name, code_matrix(type, info, linear, {}));
    });
    tokens = random_tokens(num_tokens, spec.vocab, 7);
    if (spec.turns()) rope = rope_table(spec, kWindow, kWindow);
    x = arena.zeros(DType::f32, {num_tokens, spec.width}, MemoryClass::activations);
    for (size_t i = 0; i < x.span<float>().size(); ++i)
      x.span<float>()[i] = static_cast<float>(random_normal({3, hash_name("x")}, i));
    target = output();
  }
  TypeOfMatrix type_of() const {
    return [this](const ParameterInfo&) { return type; };
  }
  Rows rows() const {
    std::vector<int64_t> starts;
    const auto num = static_cast<int64_t>(tokens.size());
    for (int64_t at = 0; at < num; at += kWindow) starts.push_back(at);
    starts.push_back(num);
    return make_rows(tokens, starts, spec.turns() ? &rope : nullptr);
  }
  // With the codes as they are.
  Tensor output() {
    put_numbers(spec, unit, weights, codes, type_of(), "");
    return unit_forward(spec, unit, weights.units[static_cast<size_t>(unit)], rows(), x, nullptr, nullptr,
                        Compute{arena, Multiply::exact});
  }
  double error() {
    const Tensor y = output();
    double far = 0, own = 0;
    for (size_t i = 0; i < y.span<float>().size(); ++i) {
      const auto t = static_cast<double>(target.span<float>()[i]);
      far += std::pow(static_cast<double>(y.span<float>()[i]) - t, 2);
      own += std::pow(static_cast<double>(x.span<float>()[i]) - t, 2);
    }
    return far / own;
  }
  // Levels and row scales that are not the ones which made the target: levels off by a few steps, every third row by a tenth.
  void disturb() {
    for (auto& [name, matrix] : codes) {
      for (size_t i = 0; i < matrix.tables.size(); ++i)
        matrix.tables[i] =
            static_cast<int8_t>(std::clamp(matrix.tables[i] * 9 / 10 + static_cast<int>(i % 3), -127, 127));
      const int64_t row_bytes = stored_bytes(type, 1, in_of(name));
      for (size_t r = 0; r * static_cast<size_t>(row_bytes) < matrix.rows.size(); r += 3) {
        bf16 scale;
        std::memcpy(&scale, matrix.rows.data() + r * static_cast<size_t>(row_bytes), 2);
        scale = to_bf16(1.1f * to_float(scale));
        std::memcpy(matrix.rows.data() + r * static_cast<size_t>(row_bytes), &scale, 2);
      }
    }
  }
  int64_t in_of(const std::string& name) {
    for (const ParameterInfo& info : parameters(spec))
      if (info.name == name) return info.shape[1];
    return 0;
  }
  ReconstructionErrors train(Reconstruction how) {
    return reconstruct(spec, unit, weights, codes, type_of(),
                       {tokens, kWindow, spec.turns() ? &rope : nullptr, x, target}, how, arena);
  }
};

struct Disturbed {
  const char* family;
  WeightType type;
  int unit;
  int64_t tokens = kTokens;
};

TEST(Reconstruction, FindsTablesAndScalesAgainAndChangesNoCode) {
  for (const auto& [family, type, unit, tokens] : {Disturbed{"llama", WeightType::lc4, 1},
                                                   {"llama", WeightType::lc2, 2},
                                                   {"gpt2", WeightType::lc3, 1},
                                                   {"mixtral", WeightType::lc3, 2},
                                                   {"llama", WeightType::lc2, 1, kMany}}) {
    SCOPED_TRACE(std::string(family) + " " + std::string(name_of(type)) + " unit " + std::to_string(unit));
    Exercise e(family, type, unit, tokens);
    ASSERT_FALSE(e.codes.empty());
    const UnitCodes chosen = e.codes;
    e.disturb();
    const double before = e.error();
    const ReconstructionErrors errors = e.train({.steps = 100, .learning_rate = 1e-2});
    std::printf("%s: error %.2e -> %.2e\n", family, errors.before, errors.after);
    EXPECT_NEAR(errors.before, before, 1e-6 * before);
    EXPECT_NEAR(errors.after, e.error(), 1e-6 * before);
    EXPECT_LT(errors.after, 0.1 * before);
    for (const auto& [name, matrix] : e.codes) {
      const auto row_bytes = static_cast<size_t>(stored_bytes(type, 1, e.in_of(name)));
      const auto levels = static_cast<size_t>(row_of(type).levels);
      for (size_t i = 0; i < matrix.rows.size(); ++i) {
        const bool of_block = i % row_bytes >= 2;
        ASSERT_TRUE(!of_block || matrix.rows[i] == chosen.at(name).rows[i]) << name << ", byte " << i;
      }
      for (size_t i = 1; i < matrix.tables.size(); ++i)
        ASSERT_TRUE(i % levels == 0 || matrix.tables[i] >= matrix.tables[i - 1]) << name << ", level " << i;
    }
  }
}

// Rows of zeros teach nothing. Where one window alone has others, steps that take 86 of 192 windows come to it.
TEST(Reconstruction, EveryWindowIsLearnedFrom) {
  Exercise e("llama", WeightType::lc2, 1, kMany);
  const UnitCodes chosen = e.codes;
  const std::vector<float> rows(e.x.span<float>().begin(), e.x.span<float>().end());
  for (const int64_t window : {0, 40, 77, 120, 160, 191}) {
    const auto begin = static_cast<size_t>(window * kWindow * e.spec.width),
               end = std::min(begin + static_cast<size_t>(kWindow * e.spec.width), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) e.x.span<float>()[i] = i >= begin && i < end ? rows[i] : 0;
    e.codes = chosen;
    e.target = e.output();
    e.disturb();
    const ReconstructionErrors errors = e.train({.steps = 20, .learning_rate = 1e-2});
    EXPECT_LT(errors.after, 0.5 * errors.before) << "window " << window;
  }
}

// Levels that would have to pass each other meet instead.
TEST(Reconstruction, LevelsStayAscending) {
  Exercise e("llama", WeightType::lc3, 1);
  const UnitCodes ascending = e.codes;
  for (auto& [name, matrix] : e.codes)
    for (size_t i = 2; i < matrix.tables.size(); i += 8) std::swap(matrix.tables[i], matrix.tables[i + 1]);
  e.target = e.output();
  e.codes = ascending;
  const ReconstructionErrors errors = e.train({.steps = 60, .learning_rate = 1e-2});
  EXPECT_LT(errors.after, 0.8 * errors.before);
  for (const auto& [name, matrix] : e.codes)
    for (size_t i = 1; i < matrix.tables.size(); ++i)
      ASSERT_TRUE(i % 8 == 0 || matrix.tables[i] >= matrix.tables[i - 1]) << name << ", level " << i;
}

TEST(Reconstruction, TheSameBytesForAnyThreads) {
  const auto trained = [](int threads) {
    UnitCodes codes;
    with_threads(threads, [&] {
      Exercise e("llama", WeightType::lc3, 2);
      e.disturb();
      e.train({.steps = 20});
      codes = e.codes;
    });
    return codes;
  };
  const UnitCodes one = trained(1);
  for (const int threads : {2, 3, 7})
    for (const auto& [name, matrix] : trained(threads)) {
      EXPECT_EQ(matrix.rows, one.at(name).rows) << name << ", " << threads << " threads";
      EXPECT_EQ(matrix.tables, one.at(name).tables) << name << ", " << threads << " threads";
    }
}

// Steps that are far too long leave the codes as they were, and their numbers in the weights.
TEST(Reconstruction, WhatDoesNotHelpIsNotKept) {
  Exercise e("llama", WeightType::lc4, 1);
  e.disturb();
  const UnitCodes before = e.codes;
  const ReconstructionErrors errors = e.train({.steps = 3, .learning_rate = 50});
  EXPECT_EQ(errors.after, errors.before);
  for (const auto& [name, matrix] : e.codes) {
    EXPECT_EQ(matrix.rows, before.at(name).rows);
    EXPECT_EQ(matrix.tables, before.at(name).tables);
  }
  const std::vector<float> held = [&] {
    std::vector<float> all;
    for_each_linear(e.spec, e.weights, [&](const ParameterInfo& info, Linear& linear) {
      if (info.unit == 1)
        all.insert(all.end(), dense_rows(linear).span<float>().begin(), dense_rows(linear).span<float>().end());
    });
    return all;
  }();
  e.output();  // puts the numbers of e.codes
  std::vector<float> put;
  for_each_linear(e.spec, e.weights, [&](const ParameterInfo& info, Linear& linear) {
    if (info.unit == 1)
      put.insert(put.end(), dense_rows(linear).span<float>().begin(), dense_rows(linear).span<float>().end());
  });
  EXPECT_EQ(held, put);
}

// Types without tables, and no steps: nothing happens.
TEST(Reconstruction, TypesWithoutTablesStay) {
  Exercise e("llama", WeightType::q4_0, 1);
  const UnitCodes before = e.codes;
  EXPECT_EQ(e.train({.steps = 5}).before, 0);
  for (const auto& [name, matrix] : e.codes) EXPECT_EQ(matrix.rows, before.at(name).rows);
}

}  // namespace
}  // namespace tern
