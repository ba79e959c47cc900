// What a matrix costs alone, against a whole model in which it alone is coded; kept measures; memory.
#include "quantize/sensitivity.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/bug.h"
#include "base/error.h"
#include "formats/format_test_support.h"
#include "formats/hf/config.h"
#include "model/model_files.h"
#include "model/model_testing.h"
#include "model/visit_weights.h"
#include "quantize/gptq.h"
#include "quantize/input_moments.h"

namespace tern {
namespace {

constexpr WeightType kProbed[] = {WeightType::lc2, WeightType::q8_0};

// Not symmetric, so that the two rows cannot be mixed up.
double row_divergence(std::span<const float> p, std::span<const float> q) {
  double most_p = -INFINITY, most_q = -INFINITY, sum_p = 0, sum_q = 0, kl = 0;
  for (size_t i = 0; i < p.size(); ++i)
    most_p = std::max(most_p, static_cast<double>(p[i])), most_q = std::max(most_q, static_cast<double>(q[i]));
  for (size_t i = 0; i < p.size(); ++i)
    sum_p += std::exp(static_cast<double>(p[i]) - most_p), sum_q += std::exp(static_cast<double>(q[i]) - most_q);
  for (size_t i = 0; i < p.size(); ++i) {
    const double log_p = static_cast<double>(p[i]) - most_p - std::log(sum_p);
    kl += std::exp(log_p) * (log_p - (static_cast<double>(q[i]) - most_q - std::log(sum_q)));
  }
  return kl;
}

// A small random model on the disk; rows are whole blocks of 32.
struct SmallModel {
  TemporaryDirectory dir;
  ModelSpec spec;
  explicit SmallModel(const std::string& family) {
    HfConfig c = tiny_config(family);
    c.hidden_size = 32, c.intermediate_size = 64, c.head_dim = 8;
    if (c.expert_size > 0) c.expert_size = 32;
    spec = model_spec(c);
    Arena arena;
    save_model(spec, c, random_weights(spec, DType::f32, arena, 5), DType::f32, model(), real_io());
  }
  std::string model() const { return dir / "model"; }
  CalibrationText text(int64_t tokens, int64_t window = 16) const {
    return {.tokens = random_tokens(tokens, spec.vocab, 7), .window = window};
  }
  std::vector<MatrixSensitivity> measured(const CalibrationText& text, const std::string& kept, int units,
                                          const std::string& settings = "test") const {
    Arena arena;
    SensitivityMeter meter(spec, model(), text, kProbed, row_divergence, arena, real_io(), dir / kept, settings);
    std::vector<MatrixSensitivity> all;
    for (int unit = 0; unit < units; ++unit)
      for (MatrixSensitivity& m : meter.measure(unit)) all.push_back(std::move(m));
    return all;
  }
  int units() const { return static_cast<int>(spec.units.size()) - 1; }
};

// All of it in memory, one matrix coded by hand.
double cost_by_hand(const SmallModel& m, const CalibrationText& text, const std::string& name, WeightType type) {
  Arena arena;
  ModelWeights weights = load_weights(m.spec, m.model(), DType::f32, arena);
  const RopeTable rope = m.spec.turns() ? rope_table(m.spec, text.window, text.window) : RopeTable{};
  const auto count = std::min<int64_t>(SensitivityMeter::kTokens, static_cast<int64_t>(text.tokens.size()));
  std::vector<int64_t> starts;
  for (int64_t at = 0; at < count; at += text.window) starts.push_back(at);
  starts.push_back(count);
  const Rows rows =
      make_rows(std::span(text.tokens).first(static_cast<size_t>(count)), starts, m.spec.turns() ? &rope : nullptr);
  std::vector<int32_t> all(static_cast<size_t>(count));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  InputMoments moments(arena, [](const Linear&) { return true; });
  const Tensor want =
      head_logits(m.spec, weights, model_forward(m.spec, weights, rows, nullptr, {arena, Multiply::exact, &moments}),
                  all, {arena, Multiply::exact});
  for_each_linear(m.spec, weights, [&](const ParameterInfo& info, Linear& linear) {
    if (info.name == name) code_matrix(type, info, linear, error_factor(*moments.of(linear), linear.in));
  });
  const Tensor got =
      head_logits(m.spec, weights, model_forward(m.spec, weights, rows, nullptr, {arena, Multiply::exact}), all,
                  {arena, Multiply::exact});
  const auto vocab = static_cast<size_t>(m.spec.vocab);
  double sum = 0;
  for (size_t i = 0; i < all.size(); ++i)
    sum += row_divergence(want.span<float>().subspan(i * vocab, vocab), got.span<float>().subspan(i * vocab, vocab));
  return sum / static_cast<double>(count);
}

TEST(Sensitivity, OfAMatrixIsWhatTheWholeModelLosesWhereItAloneIsCoded) {
  for (const char* family : {"llama", "qwen3", "falcon"}) {
    SCOPED_TRACE(family);
    const SmallModel m(family);
    const CalibrationText text = m.text(90);  // the last window is shorter
    const std::vector<MatrixSensitivity> all = m.measured(text, "kept", m.units());
    ASSERT_GE(all.size(), 4u);
    for (const MatrixSensitivity& s : all)
      for (size_t t = 0; t < std::size(kProbed); ++t)
        EXPECT_NEAR(s.divergence[t], cost_by_hand(m, text, s.parameter, kProbed[t]), 1e-9 + 1e-6 * s.divergence[t])
            << s.parameter << " in " << name_of(kProbed[t]);
    for (const MatrixSensitivity& s : all) EXPECT_GT(s.divergence[0], 4 * s.divergence[1]) << s.parameter;
  }
}

TEST(Sensitivity, GoesOnFromWhatIsThereToTheSameNumbers) {
  const SmallModel m("llama");
  const CalibrationText text = m.text(64);
  const std::vector<MatrixSensitivity> want = m.measured(text, "whole", m.units());
  m.measured(text, "on", 2);
  const std::vector<MatrixSensitivity> got = m.measured(text, "on", m.units());
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].parameter, want[i].parameter);
    EXPECT_EQ(got[i].divergence, want[i].divergence) << want[i].parameter;
  }
  EXPECT_THROW(m.measured(text, "on", m.units(), "another"), Error);
}

// An expert that no token reaches has no cost of its own: it gets what others of its layer have.
TEST(Sensitivity, AMatrixThatNoTokenReachesHasTheMeanOfItsUnit) {
  const SmallModel m("mixtral");
  const CalibrationText text = m.text(1, 1);  // one token reaches few experts
  const std::vector<MatrixSensitivity> all = m.measured(text, "kept", m.units());
  ASSERT_FALSE(all.empty());
  for (const MatrixSensitivity& s : all) EXPECT_EQ(s.divergence.size(), std::size(kProbed));
  int unseen = 0;
  for (const MatrixSensitivity& a : all)
    for (const MatrixSensitivity& b : all) unseen += &a < &b && a.divergence == b.divergence;
  EXPECT_GT(unseen, 0);
}

TEST(Sensitivity, HoldsNoMoreThanItForetells) {
  for (const char* family : {"llama", "falcon", "mixtral"})
    for (const int64_t tokens : {40, 2500}) {
      const SmallModel m(family);
      const CalibrationText text = m.text(tokens);
      Arena arena;
      SensitivityMeter meter(m.spec, m.model(), text, kProbed, row_divergence, arena, real_io(), m.dir / "kept",
                             "test");
      for (int unit = 0; unit < m.units(); ++unit) meter.measure(unit);
      EXPECT_LE(arena.peak_total(), SensitivityMeter::peak_bytes(m.spec, text))
          << family << ", " << tokens << " tokens";
    }
}

}  // namespace
}  // namespace tern
