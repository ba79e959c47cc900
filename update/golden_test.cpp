// Twenty steps of each rule against the reference frameworks (dev/golden/optimizers.py), which compute in f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/json.h"
#include "base/source_dir_testing.h"
#include "kernels/cpu/dynamic_codes.h"
#include "kernels/kernel_testing.h"
#include "model/golden_weights_testing.h"
#include "update/rule_testing.h"

namespace tern {
namespace {

double golden_value(const std::string& name, int64_t i, double spread) {
  return spread * (static_cast<float>(golden_bits(golden_hash(name), static_cast<uint64_t>(i)) >> 8) / 0x1p23f - 1.0f);
}

// The largest difference, as a share of the largest value wanted.
double relative_error(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size() || want.empty()) return INFINITY;
  double error = 0, largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i])) return INFINITY;
    error = std::max(error, std::abs(got[i] - want[i])), largest = std::max(largest, std::abs(want[i]));
  }
  return error / largest;
}

UpdateConfig config_from(UpdateRule rule, const Json& options) {
  UpdateConfig config = update_config(rule);
  for (const auto& [name, value] : options.items()) config.set_option(name, value.get<double>());
  return config;
}

Json golden_file(const std::string& name) {
  std::ifstream file(source_dir() + "/tests/golden/" + name);
  return Json::parse(file);
}

std::vector<std::pair<std::string, ParameterForm>> forms_of(const Json& shapes) {
  std::vector<std::pair<std::string, ParameterForm>> forms;
  for (const auto& [name, shape] : shapes.items())
    forms.push_back({name, shape.size() == 1 ? ParameterForm{ParameterKind::vector, 1, shape[0].get<int64_t>()}
                                             : ParameterForm{ParameterKind::matrix, shape[0].get<int64_t>(),
                                                             shape[1].get<int64_t>()}});
  return forms;
}

TEST(UpdateGolden, TwentyStepsOfEachRule) {
  const Json golden = golden_file("optimizers.json");
  ASSERT_GE(golden["rules"].size(), 9u);
  for (const auto& [rule, reference] : golden["rules"].items())
    for (const DType dtype : {DType::f32, DType::f64})
      for_each_isa([&] {
        SCOPED_TRACE(rule + " in " + std::string(name_of(dtype)));
        const auto parameters = forms_of(reference["shapes"]);
        RuleRun run(config_from(update_rule_from_name(rule), reference["options"]), dtype, parameters,
                    [](const std::string& name, int64_t i) { return golden_value("weight " + name, i, 0.5); });
        const double peak = reference["rate"].get<double>(), warmup = reference["warmup"].get<double>();
        const auto rate = [&](int64_t s) {
          return warmup > 0 ? peak * std::min(1.0, static_cast<double>(s) / warmup) : peak;
        };
        int shown = 0;
        for (int64_t step = 1; step <= 20; ++step) {
          run.set_gradients([&](const std::string& name, int64_t i) {
            return golden_value("gradient " + name + " " + std::to_string(step), i, 0.25);
          });
          run.step(step, rate);
          const auto want = reference["weights"].find(std::to_string(step));
          if (want == reference["weights"].end()) continue;
          ++shown;
          for (size_t p = 0; p < parameters.size(); ++p) {
            const std::string& name = parameters[p].first;
            EXPECT_LE(relative_error(values_of(run.pass.weights[p]), (*want)[name].get<std::vector<double>>()), 1e-6)
                << name << " after step " << step;
            if (const auto average = want->find(name + " average"); average != want->end()) {
              EXPECT_LE(relative_error(values_of(run.state.master[p]), average->get<std::vector<double>>()), 1e-6)
                  << name << "'s average after step " << step;
            }
          }
        }
        EXPECT_EQ(shown, 4);
      });
}

// The reference rounds twice where a fused multiply-add rounds once, so a moment that lies at the middle between two codes, within
// that rounding, may take either; such an element's weight then differs by the step between the codes.
TEST(UpdateGolden, EightBitMomentsHaveTheReferencesCodes) {
  const Json golden = golden_file("optimizers8.json");
  EXPECT_EQ(golden["signed"].get<std::vector<float>>(),
            std::vector<float>(signed_codes().begin(), signed_codes().end()));
  EXPECT_EQ(golden["unsigned"].get<std::vector<float>>(),
            std::vector<float>(unsigned_codes().begin(), unsigned_codes().end()));
  const ParameterForm form{ParameterKind::matrix, golden["rows"].get<int64_t>(), golden["columns"].get<int64_t>()};
  for_each_isa([&] {
    RuleRun run(config_from(UpdateRule::adamw8bit, golden["options"]), DType::f32, {{"coded", form}},
                [](const std::string& name, int64_t i) { return golden_value("weight " + name, i, 0.5); });
    for (int64_t step = 1; step <= 20; ++step) {
      run.set_gradients([&](const std::string& name, int64_t i) {
        return golden_value("gradient " + name + " " + std::to_string(step), i, 0.25);
      });
      run.step(step, golden["rate"].get<double>());
      const auto want = golden["steps"].find(std::to_string(step));
      if (want == golden["steps"].end()) continue;
      const auto first = (*want)["first"].get<std::vector<int>>(), second = (*want)["second"].get<std::vector<int>>();
      const auto weights = (*want)["weights"].get<std::vector<double>>();
      const std::span<const uint8_t> m = run.state.slots[0][0].span<uint8_t>(),
                                     v = run.state.slots[1][0].span<uint8_t>();
      ASSERT_EQ(first.size(), m.size());
      int ties = 0, apart = 0;
      for (size_t i = 0; i < m.size(); ++i) {
        ASSERT_LE(std::abs(first[i] - m[i]), 1) << i;
        ASSERT_LE(std::abs(second[i] - v[i]), 1) << i;
        ties += first[i] != m[i] || second[i] != v[i];
        apart += !(std::abs(value_at(run.pass.weights[0], static_cast<int64_t>(i)) - weights[i]) <= 1e-6);
      }
      EXPECT_LE(ties, step == 1 ? 0 : 2) << "after step " << step;
      EXPECT_LE(apart, step == 1 ? 0 : 4) << "after step " << step;
    }
  });
}

// LoRA+ (Hayou et al. 2024, arXiv:2402.12354): B at a multiple of A's rate, as PEFT's optimizer has it.
TEST(UpdateGolden, TwentyStepsOfAnAdapterWhoseBIsFaster) {
  const Json golden = golden_file("lora_plus.json");
  std::vector<std::pair<std::string, ParameterForm>> parameters;
  for (const auto& [name, shape] : golden["shapes"].items())
    parameters.push_back({name, {ParameterKind::matrix, shape[0].get<int64_t>(), shape[1].get<int64_t>()}});
  for (const DType dtype : {DType::f32, DType::f64}) {
    RuleRun run(config_from(UpdateRule::adamw, golden["options"]), dtype, parameters,
                [](const std::string& name, int64_t i) { return golden_value("weight " + name, i, 0.5); });
    for (const auto& [name, form] : parameters)
      run.pass.rate_factors.push_back(name == "b" ? golden["ratio"].get<double>() : 1);
    int shown = 0;
    for (int64_t step = 1; step <= 20; ++step) {
      run.set_gradients([&](const std::string& name, int64_t i) {
        return golden_value("gradient " + name + " " + std::to_string(step), i, 0.25);
      });
      run.step(step, golden["rate"].get<double>());
      const auto want = golden["weights"].find(std::to_string(step));
      if (want == golden["weights"].end()) continue;
      ++shown;
      for (size_t p = 0; p < parameters.size(); ++p)
        EXPECT_LE(
            relative_error(values_of(run.pass.weights[p]), (*want)[parameters[p].first].get<std::vector<double>>()),
            1e-6)
            << parameters[p].first << " after step " << step;
    }
    EXPECT_EQ(shown, 4);
  }
}

}  // namespace
}  // namespace tern
