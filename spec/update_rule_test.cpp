#include "spec/update_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

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
      EXPECT_TRUE(!o.counts || (value >= 1 && value == std::floor(value))) << o.name << " " << value;
      EXPECT_FALSE(o.help.empty()) << o.name;
      // One flag, whoever reads it.
      for (const UpdateRule other : kUpdateRules)
        for (const RuleOption& same : row_of(other).options)
          EXPECT_TRUE(same.name != o.name || (same.max == o.max && same.below_max == o.below_max &&
                                              same.counts == o.counts && same.help == o.help))
              << o.name;
    }
    for (const StateSlot& slot : row.slots) {
      EXPECT_FALSE(slot.name.empty() || slot.name == "model") << "the masters' prefix in a checkpoint";
      EXPECT_EQ(std::ranges::count(row.slots, slot.name, &StateSlot::name), 1) << slot.name;
      EXPECT_TRUE(slot.unless_zero.empty() ||
                  std::ranges::count(row.options, slot.unless_zero, &RuleOption::name) == 1);
    }
    EXPECT_GT(row.flops(defaults, {ParameterKind::matrix, 3, 5}), 0);
    EXPECT_LE(row.sums.count, kMaxUpdateSums);
    EXPECT_TRUE(row.sums.unless_zero.empty() ||
                std::ranges::count(row.options, row.sums.unless_zero, &RuleOption::name) == 1);
    EXPECT_EQ(std::ranges::count(row.options, std::string_view("weight-decay"), &RuleOption::name), 1)
        << "UpdateShard::decay";
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

// Shi, Wang & Li 2026, Llama of 60M (width 512, 8 layers, hidden 1376, an untied vocabulary of 32,000), f32: the state of MeqMuon,
// Muon and AdamW is 221.5, 346.6 and 443.1 MiB.
TEST(UpdateRules, StatesOfThePublishedModel) {
  constexpr int64_t kWidth = 512, kHidden = 1376, kLayers = 8, kVocab = 32000;
  const std::vector<CountedForm> forms = {{{ParameterKind::matrix, kWidth, kWidth}, 4 * kLayers},
                                          {{ParameterKind::matrix, kHidden, kWidth}, 2 * kLayers},
                                          {{ParameterKind::matrix, kWidth, kHidden}, kLayers},
                                          {{ParameterKind::table, kVocab, kWidth}, 2},
                                          {{ParameterKind::vector, 1, kWidth}, 2 * kLayers + 1}};
  const auto bytes = [&](UpdateRule rule) { return state_bytes(update_config(rule), DType::f32, forms); };
  constexpr int64_t kParameters = 58'073'600, kMatrices = 25'296'896;
  EXPECT_EQ(bytes(UpdateRule::meqmuon), 4 * kParameters);
  EXPECT_EQ(bytes(UpdateRule::muon), 4 * (2 * kParameters - kMatrices));
  EXPECT_EQ(bytes(UpdateRule::adamw), 8 * kParameters);
  const auto tenths_of_mib = [](int64_t b) { return (10 * b + (1 << 19)) >> 20; };
  EXPECT_EQ(tenths_of_mib(bytes(UpdateRule::meqmuon)), 2215);
  EXPECT_EQ(tenths_of_mib(bytes(UpdateRule::muon)), 3466);
  EXPECT_EQ(tenths_of_mib(bytes(UpdateRule::adamw)), 4431);
}

// By hand, of a matrix of 50 rows and 70 columns, and a vector of 70.
TEST(UpdateRules, StateBytesInClosedForm) {
  const ParameterForm matrix{ParameterKind::matrix, 50, 70}, table{ParameterKind::table, 50, 70},
      vector{ParameterKind::vector, 1, 70};
  const auto bytes = [](UpdateRule rule, DType dtype, const ParameterForm& p) {
    return state_bytes(update_config(rule), dtype, p);
  };
  for (const auto& [rule, of_matrix, of_table, of_vector] :
       std::vector<std::tuple<UpdateRule, int64_t, int64_t, int64_t>>{
           {UpdateRule::sngm, 4 * 3500, 4 * 3500, 4 * 70},
           {UpdateRule::lars, 4 * 3500, 4 * 3500, 4 * 70},
           {UpdateRule::lamb, 8 * 3500, 8 * 3500, 8 * 70},
           {UpdateRule::lion, 4 * 3500, 4 * 3500, 4 * 70},
           {UpdateRule::schedule_free, 12 * 3500, 12 * 3500, 12 * 70},
           {UpdateRule::adafactor, 4 * 120, 4 * 120, 4 * 70},
           {UpdateRule::muon, 4 * 3500, 8 * 3500, 8 * 70},
           {UpdateRule::meqmuon, 4 * 3500, 4 * 3500, 4 * 70},
           {UpdateRule::adamw8bit, 2 * 3500 + 2 * 2 * 4, 8 * 3500, 8 * 70},
           {UpdateRule::galore_adamw, 4 * 50 * 50 + 8 * 50 * 70, 8 * 3500, 8 * 70},
           {UpdateRule::galore_sgd, 4 * 50 * 50 + 4 * 50 * 70, 4 * 3500, 4 * 70},
           {UpdateRule::galore_adamw8bit, 4 * 50 * 50 + 2 * 50 * 70 + 2 * 2 * 4, 8 * 3500, 8 * 70},
           {UpdateRule::soap, 8 * 3500 + 8 * (50 * 50 + 70 * 70), 8 * 3500, 8 * 70}}) {
    SCOPED_TRACE(name_of(rule));
    EXPECT_EQ(bytes(rule, DType::f32, matrix), of_matrix);
    EXPECT_EQ(bytes(rule, DType::f32, table), of_table);
    EXPECT_EQ(bytes(rule, DType::f32, vector), of_vector);
    const int64_t masters = rule == UpdateRule::schedule_free ? 0 : 4 * 3500;  // apart in f32 too
    EXPECT_EQ(bytes(rule, DType::bf16, matrix), of_matrix + masters);
  }
}

// GaLore of rank 20 on both shapes of a matrix: the basis of the shorter side, and the inner rule's state of what is projected.
TEST(UpdateRules, AProjectionKeepsWhatItsRankSays) {
  for (const ParameterForm& form :
       {ParameterForm{ParameterKind::matrix, 50, 70}, ParameterForm{ParameterKind::matrix, 70, 50}}) {
    const auto bytes = [&](UpdateRule rule) {
      return state_bytes(update_config(rule, {{"projection-rank", 20}}), DType::f32, form);
    };
    EXPECT_EQ(bytes(UpdateRule::galore_adamw), 4 * 20 * 50 + 8 * 20 * 70);
    EXPECT_EQ(bytes(UpdateRule::galore_adamw8bit), 4 * 20 * 50 + 2 * 20 * 70 + 2 * 4);
  }
}

TEST(UpdateRules, APartOfASlotGoesWithItsPartOfTheParameter) {
  const ParameterForm form{ParameterKind::matrix, 1, 2 * kUpdateBlock + 77};
  const UpdateConfig c = update_config(UpdateRule::adamw8bit);
  const std::vector<StateSlot>& slots = row_of(c.rule).slots;
  EXPECT_EQ(slot_interval(c, slots[0], form, kUpdateBlock, 2 * kUpdateBlock),
            std::pair(kUpdateBlock, 2 * kUpdateBlock));
  EXPECT_EQ(slot_interval(c, slots[2], form, kUpdateBlock, 2 * kUpdateBlock), std::pair(int64_t{32}, int64_t{64}));
  EXPECT_EQ(slot_interval(c, slots[2], form, 2 * kUpdateBlock, form.columns), std::pair(int64_t{64}, int64_t{65}));
  EXPECT_EQ(slot_interval(c, slots[4], form, kUpdateBlock, form.columns), std::pair(int64_t{0}, int64_t{0}));
  EXPECT_THROW(slot_interval(c, slots[0], form, 5, kUpdateBlock), std::logic_error);
}

TEST(UpdateRules, DefaultsOfAnOptionAreToldByRule) {
  const std::string text = defaults_of("beta2");
  EXPECT_NE(text.find("0.95 for adamw, "), std::string::npos) << text;
  EXPECT_NE(text.find("0.99 for lion"), std::string::npos) << text;
  EXPECT_EQ(text.find("sgd"), std::string::npos) << text;
}

TEST(ParameterForms, AddUpToWhatIsTrainedOnEveryMesh) {
  for (const char* name : {"llama-2-7b", "gpt2", "mixtral-8x7b", "t5-large"})
    for (const int64_t tensor : {1, 2, 8})
      for (const auto& [frozen, rank] : {std::pair{false, 0}, {true, 8}, {true, 0}}) {
        SCOPED_TRACE(name);
        const ModelSpec spec = preset_model(name).value();
        for (Unit unit : spec.units) {
          unit.frozen = frozen;
          if (rank > 0)
            for (const AdaptedModule module : adapted_modules(unit, spec.names))
              unit.adapters.push_back({module, rank});
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
