#include "spec/update_rule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "spec/presets.h"

namespace tern {
namespace {

TEST(UpdateRules, TableIsWhole) {
  for (const UpdateRule rule : kUpdateRules) {
    SCOPED_TRACE(name_of(rule));
    EXPECT_EQ(update_rule_from_name(name_of(rule)), rule);
    const UpdateRuleRow& row = row_of(rule);
    const UpdateConfig defaults = update_config(rule);
    for (const RuleOption& o : row.options) {
      const double value = defaults.option(o.name);
      EXPECT_TRUE(0 <= value && (o.below_max ? value < o.max : value <= o.max)) << o.name << " " << value;
      EXPECT_FALSE(o.help.empty()) << o.name;
      // One flag, whoever reads it.
      for (const UpdateRule other : kUpdateRules)
        for (const RuleOption& same : row_of(other).options)
          EXPECT_TRUE(same.name != o.name || (same.fallback == o.fallback && same.max == o.max && same.help == o.help))
              << o.name;
    }
    for (const StateSlot& slot : row.slots) {
      EXPECT_FALSE(slot.name.empty() || slot.name == "model") << "the masters' prefix in a checkpoint";
      EXPECT_EQ(std::ranges::count(row.slots, slot.name, &StateSlot::name), 1) << slot.name;
      EXPECT_TRUE(slot.unless_zero.empty() ||
                  std::ranges::count(row.options, slot.unless_zero, &RuleOption::name) == 1);
    }
    EXPECT_GT(row.flops({ParameterKind::matrix, 3, 5}), 0);
  }
  EXPECT_THROW(update_rule_from_name("adam"), Error);
}

// By hand: AdamW keeps two moments, SGD a velocity where it has momentum; bf16 weights have f32 masters.
TEST(UpdateRules, StateBytesOfTodaysRules) {
  const ParameterForm form{ParameterKind::matrix, 10, 7};
  const UpdateConfig adamw = update_config(UpdateRule::adamw), sgd = update_config(UpdateRule::sgd),
                     plain = update_config(UpdateRule::sgd, {{"momentum", 0.0}});
  EXPECT_EQ(state_bytes(adamw, DType::f32, form), 70 * 8);
  EXPECT_EQ(state_bytes(adamw, DType::bf16, form), 70 * 12);
  EXPECT_EQ(state_bytes(adamw, DType::f64, form), 70 * 16);
  EXPECT_EQ(state_bytes(sgd, DType::f32, form), 70 * 4);
  EXPECT_EQ(state_bytes(plain, DType::f32, form), 0);
  EXPECT_EQ(state_bytes(plain, DType::bf16, form), 70 * 4);
  const UpdateCost cost = update_cost(adamw, DType::bf16, {{form, 3}});
  EXPECT_EQ(cost.flops, 3 * 70 * 12);
  EXPECT_EQ(cost.bytes_moved, 3 * 70 * (4 + 4 + 8 + 8 + 8 + 2));  // g read and cleared; w, m, v both ways; bf16 w
}

TEST(ParameterForms, AddUpToWhatIsTrainedOnEveryMesh) {
  for (const char* name : {"llama-2-7b", "gpt2", "mixtral-8x7b", "t5-large"})
    for (const int64_t tensor : {1, 2, 8})
      for (const auto& [frozen, rank] : {std::pair{false, 0}, {true, 8}, {true, 0}}) {
        SCOPED_TRACE(name);
        const ModelSpec spec = preset_model(name).value();
        for (Unit unit : spec.units) {
          unit.frozen = frozen;
          if (attention_of(unit) || mlp_of(unit) || moe_of(unit)) unit.adapter_rank = rank;
          const CostQuery q{.tokens = 4, .tensor = tensor, .expert = tensor, .expert_tensor = 1};
          const UnitCost cost = unit_cost(unit, q);
          int64_t dense = 0, expert = 0;
          for (const CountedForm& f : trained_forms(unit, q)) {
            EXPECT_GT(f.form.elements(), 0);
            (f.expert ? expert : dense) += f.count * f.form.elements();
          }
          EXPECT_EQ(dense, cost.trained - cost.expert_trained);
          EXPECT_EQ(expert, cost.expert_trained);
        }
      }
}

}  // namespace
}  // namespace tern
