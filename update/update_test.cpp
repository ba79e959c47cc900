#include "update/update_unit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/rng.h"
#include "formats/hf/config.h"
#include "formats/hf/family.h"
#include "kernels/cpu/vector.h"
#include "model/allocate_weights.h"
#include "model/initial_weights.h"
#include "model/model_testing.h"
#include "model/visit_weights.h"
#include "update/norm.h"
#include "update/rule_testing.h"

namespace tern {
namespace {

ModelSpec spec_of() {
  const NormSpec norm{.kind = NormKind::layer, .width = 8};
  ModelSpec s{.family = "gpt2", .vocab = 20, .width = 8, .layers = 1, .context = 16};
  s.units = {{-1, EmbedSpec{20, 8, 16}},
             {0, AttentionSpec{norm, 8, 2, 2, 4, true, true, 0}},
             {0, MlpSpec{norm, 8, 12, ActivationKind::gelu_tanh, false, true}},
             {-1, HeadSpec{norm, 8, 20, true}}};
  HfConfig named;
  named.model_type = s.family;
  s.names = hf_names(named);
  return s;
}

struct Fixture {
  ModelSpec spec = spec_of();
  Arena arena, temporaries;
  UpdateConfig config;
  ModelWeights weights, gradients;
  OptimizerState state;

  explicit Fixture(DType dtype = DType::f32, UpdateConfig c = update_config(UpdateRule::adamw)) : config(c) {
    weights = allocate_weights(spec, dtype, MemoryClass::weights, arena);
    initialize_weights(spec, weights, 3);
    gradients = allocate_gradients(spec, dtype, arena);
    state = make_optimizer_state(spec, weights, config, arena);
  }
  void fill_gradients(uint64_t seed, double scale) {
    uint64_t next = 0;
    for (Tensor* t : tensors(spec, gradients))
      for (int64_t i = 0; i < t->count(); ++i) {
        const double g = scale * random_normal({seed, 1}, next++);
        if (t->dtype() == DType::f64)
          t->span<double>()[i] = g;
        else
          t->span<float>()[i] = static_cast<float>(g);
      }
  }
  UpdateNorm update(double rate = 1e-2, int64_t step = 1) {
    UpdatePass pass = make_update_pass(spec, state, config, weights, gradients);
    pass.step = step - 1;
    begin_step(pass, step, [&](int64_t) { return rate; });
    const UpdateNorm norm = gradient_norm(pass);
    for (int unit = 0; unit < static_cast<int>(spec.units.size()); ++unit) update_unit(pass, norm, unit, temporaries);
    return norm;
  }
  double norm() const {
    double sum = 0;
    for (const Tensor* t : tensors(spec, const_cast<ModelWeights&>(gradients)))
      for (int64_t i = 0; i < t->count(); ++i)
        sum += std::pow(t->dtype() == DType::f64 ? t->span<double>()[i] : t->span<float>()[i], 2);
    return std::sqrt(sum);
  }
};

std::vector<float> values(const Tensor& t) { return {t.span<float>().begin(), t.span<float>().end()}; }

TEST(Update, BytesAreAsPredictedWithEveryRule) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    for (const UpdateConfig& config : configs_of_every_rule()) {
      const Fixture f(dtype, config);
      int64_t predicted = 0;
      for (const Unit& unit : f.spec.units) predicted += state_bytes(config, dtype, trained_forms(unit, {}));
      EXPECT_EQ(f.arena.current()[static_cast<size_t>(MemoryClass::optimizer)], predicted) << name_of(config.rule);
    }
}

TEST(Update, EveryRuleLeavesZeroGradientsAndRoundedWeights) {
  for (const UpdateConfig& config : configs_of_every_rule()) {
    Fixture f(DType::bf16, config);
    f.fill_gradients(5, 0.1);
    f.update(1e-2);
    EXPECT_EQ(f.norm(), 0) << name_of(config.rule);
    put_weights_at(make_update_pass(f.spec, f.state, f.config, f.weights, f.gradients), WeightPoint::saved);
    const std::vector<Tensor*> w = tensors(f.spec, f.weights);
    for (size_t i = 0; i < w.size(); ++i)
      for (int64_t k = 0; k < w[i]->count(); ++k)
        ASSERT_EQ(w[i]->span<bf16>()[k], to_bf16(f.state.master[i].span<float>()[k])) << name_of(config.rule);
  }
}

// The closed forms that plans price are those of the model's parameters.
TEST(ParameterForms, AreThoseOfTheModelsMatrices) {
  for_each_variant([](const std::string& variant, const ModelSpec& spec) {
    SCOPED_TRACE(variant);
    std::vector<std::vector<int64_t>> want, got;
    int64_t vectors = 0, elements = 0, blocks = 0;
    for (const ParameterInfo& info : parameters(spec)) {
      const ParameterForm f = form_of(spec, info);
      elements += f.elements();
      blocks += (f.elements() + kUpdateBlock - 1) / kUpdateBlock;
      if (f.kind == ParameterKind::vector)
        vectors += f.elements();
      else
        want.push_back({info.unit, static_cast<int64_t>(f.kind), f.rows, f.columns});
    }
    for (size_t u = 0; u < spec.units.size(); ++u)
      for (const CountedForm& c : trained_forms(spec.units[u], {})) {
        elements -= c.count * c.form.elements();
        if (c.form.kind == ParameterKind::vector)
          vectors -= c.count * c.form.elements();
        else
          got.insert(got.end(), static_cast<size_t>(c.count),
                     {static_cast<int64_t>(u), static_cast<int64_t>(c.form.kind), c.form.rows, c.form.columns});
      }
    std::ranges::sort(want), std::ranges::sort(got);
    EXPECT_EQ(got, want);
    for (const Unit& unit : spec.units) blocks -= trained_blocks(unit);
    EXPECT_EQ(blocks, 0);
    EXPECT_EQ(vectors, 0);
    EXPECT_EQ(elements, 0);
  });
}

TEST(Update, NormIsOfAllGradientsAndClippingIsPyTorchs) {
  Fixture f;
  f.fill_gradients(1, 1.0);
  const double norm = f.norm();
  const UpdateNorm r = f.update();
  EXPECT_NEAR(r.gradient_norm, norm, 1e-9 * norm);
  EXPECT_DOUBLE_EQ(r.coefficient, 1.0 / (r.gradient_norm + 1e-6));
  EXPECT_EQ(f.norm(), 0) << "gradients are zero afterwards";
  f.fill_gradients(1, 1e-4);
  EXPECT_EQ(f.update(1e-2, 2).coefficient, 1.0);
  f.config.clip = 0;
  f.fill_gradients(1, 100.0);
  EXPECT_EQ(f.update(1e-2, 3).coefficient, 1.0);
}

// First AdamW step by hand: m/(1-β1) = g, v/(1-β2) = g², so w -= lr·wd·w + lr·g/(|g| + ε).
TEST(Update, FirstAdamwStepByHandMatricesDecayBiasesDoNot) {
  Fixture f(DType::f64);
  f.config.clip = 0;
  f.fill_gradients(2, 1.0);
  const std::vector<Tensor*> w = tensors(f.spec, f.weights), g = tensors(f.spec, f.gradients);
  std::vector<std::vector<double>> want;
  int decayed = 0, kept = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    const bool decays = f.state.infos[i].decay;
    (decays ? decayed : kept) += 1;
    EXPECT_EQ(decays, w[i]->shape().rank == 2) << f.state.infos[i].name;
    for (int64_t k = 0; k < w[i]->count(); ++k) {
      const double x = w[i]->span<double>()[k], d = g[i]->span<double>()[k];
      if (k == 0) want.emplace_back();
      want.back().push_back(x - 1e-2 * (decays ? 0.1 : 0.0) * x - 1e-2 * d / (std::abs(d) + 1e-8));
    }
  }
  EXPECT_GT(decayed, 0);
  EXPECT_GT(kept, 0);
  f.update();
  for (size_t i = 0; i < w.size(); ++i)
    for (int64_t k = 0; k < w[i]->count(); ++k)
      ASSERT_NEAR(w[i]->span<double>()[k], want[i][k], 1e-12) << f.state.infos[i].name;
}

TEST(Update, Bf16WeightsAreTheRoundedMasters) {
  Fixture f(DType::bf16);
  f.fill_gradients(3, 0.1);
  f.update(1e-3);
  const std::vector<Tensor*> w = tensors(f.spec, f.weights);
  bool finer = false;
  for (size_t i = 0; i < w.size(); ++i)
    for (int64_t k = 0; k < w[i]->count(); ++k) {
      const float master = f.state.master[i].span<float>()[k];
      ASSERT_EQ(w[i]->span<bf16>()[k], to_bf16(master));
      finer = finer || to_float(to_bf16(master)) != master;
    }
  EXPECT_TRUE(finer) << "the masters hold more than bf16";
}

TEST(Update, SgdWithMomentumByHand) {
  Fixture f(DType::f64, update_config(UpdateRule::sgd, {{"weight-decay", 0}, {"momentum", 0.5}}));
  f.config.clip = 0;
  Tensor* w = tensors(f.spec, f.weights)[0];
  const double before = w->span<double>()[0];
  for (int64_t step = 1; step <= 2; ++step) {
    tensors(f.spec, f.gradients)[0]->span<double>()[0] = 2.0;
    f.update(0.1, step);
  }
  EXPECT_NEAR(w->span<double>()[0], before - 0.1 * 2 - 0.1 * (0.5 * 2 + 2), 1e-15);
}

TEST(Update, RefusesWhatIsNotFiniteNamingStepAndTensorAndChangesNothing) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    Fixture f;
    f.fill_gradients(4, 1.0);
    tensors(f.spec, f.gradients)[3]->span<float>()[1] = bad;
    const std::vector<float> weights = values(*tensors(f.spec, f.weights)[3]), moments = values(f.state.slots[0][3]);
    try {
      f.update(1e-2, 17);
      FAIL() << "no error";
    } catch (const Error& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find("step 17"), std::string::npos) << text;
      EXPECT_NE(text.find("'" + f.state.infos[3].name + "'"), std::string::npos) << text;
    }
    EXPECT_EQ(values(*tensors(f.spec, f.weights)[3]), weights);
    EXPECT_EQ(values(f.state.slots[0][3]), moments);
  }
}

}  // namespace
}  // namespace tern
