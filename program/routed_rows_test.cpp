// Lists whose passes send rows to other ranks' experts, with one exchange too few or too many: the validator finds each.
#include <gtest/gtest.h>

#include <algorithm>

#include "program/lower.h"
#include "program/validate.h"
#include "spec/recompute.h"

namespace tern {
namespace {

// Two layers with experts, and a dense one between them.
ModelSpec mixture_spec() {
  const NormSpec norm{.kind = NormKind::rms, .width = 16};
  ModelSpec s{.family = "qwen2_moe", .vocab = 40, .width = 16, .layers = 3, .context = 64};
  s.units.push_back({-1, EmbedSpec{40, 16, 0}});
  for (int layer = 0; layer < 3; ++layer) {
    s.units.push_back({layer, AttentionSpec{norm, 16, 4, 2, 4, false, false, 0}});
    if (layer == 1)
      s.units.push_back({layer, MlpSpec{norm, 16, 24, ActivationKind::silu, true, false}});
    else
      s.units.push_back({layer, MoeSpec{norm, 16, 12, 8, 2, 20, ActivationKind::silu, true}});
  }
  s.units.push_back({-1, HeadSpec{norm, 16, 40, false}});
  return s;
}

// So many stages of two replicas each, which share out the experts.
Program program_of(int stages, int micro, Recompute recompute, DType dtype) {
  const ModelSpec spec = mixture_spec();
  const auto layers = static_cast<int>(layers_of(spec).size());
  Plan plan{.parameters = num_parameters(spec)};
  plan.job = {.batch = 2 * micro, .seq = 8, .dtype = dtype, .gradients = DType::f32};
  plan.choice.mesh.data = plan.choice.mesh.expert = 2;
  plan.choice.num_stages = stages, plan.choice.num_micro = micro;
  for (int l = 0; l < layers; ++l)
    plan.layers.push_back({.first = l, .count = 1, .stage = l * stages / layers, .strategy = {.recompute = recompute}});
  for (int s = 0; s < stages; ++s)
    plan.stages.push_back(
        {.forward_ps = 10, .backward_ps = 10, .weight_ps = 10, .send_forward_ps = 1, .send_backward_ps = 1});
  plan.ranks.resize(static_cast<size_t>(stages));
  return lower(spec, placement_of(spec, plan));
}

TEST(RoutedRows, AMissingOrDoubledExchangeIsFound) {
  int exchanges = 0, told = 0;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [stages, micro] : {std::pair{1, 1}, {1, 3}, {2, 4}})
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        const Program sound = program_of(stages, micro, recompute, dtype);
        ASSERT_EQ(validate(sound), std::vector<std::string>{});
        for (size_t k = 0; k < sound.instructions.size(); ++k) {
          const Instruction& was = sound.instructions[k];
          const auto expect_found = [&](int64_t Instruction::*bytes, int64_t value) {
            Program p = sound;
            p.instructions[k].*bytes = value;
            EXPECT_FALSE(validate(p).empty())
                << to_string(was) << " of " << micro << ": " << was.*bytes << " bytes became " << value;
          };
          if (was.routed_bytes > 0) {
            ++exchanges;
            expect_found(&Instruction::routed_bytes, 0);
            expect_found(&Instruction::routed_bytes, 2 * was.routed_bytes);
            expect_found(&Instruction::routed_bytes, INT64_MAX / 2);
          }
          if (was.told_bytes > 0) {
            ++told;
            expect_found(&Instruction::told_bytes, 0);
            if (micro > 1 || recompute == Recompute::full) expect_found(&Instruction::told_bytes, 2 * was.told_bytes);
          }
          if (was.routed_bytes == 0) {
            expect_found(&Instruction::routed_bytes, 64);
            expect_found(&Instruction::told_bytes, 64);
          }
        }
      }
  EXPECT_GT(exchanges, 100);
  EXPECT_GT(told, 50);
}

TEST(RoutedRows, AMicroBatchThatSendsAllItsRowsTwiceIsFound) {
  Program p = program_of(1, 3, Recompute::full, DType::f32);
  for (Instruction& i : p.instructions)
    if (i.micro == 1) i.routed_bytes *= 2;
  EXPECT_FALSE(validate(p).empty());
}

TEST(RoutedRows, AnExchangeThatMovesToAnotherPassIsFound) {
  Program p = program_of(1, 2, Recompute::none, DType::f32);
  const auto of = [&](Opcode op) {
    return std::ranges::find_if(p.instructions, [&](const Instruction& i) { return i.op == op && i.unit == 2; });
  };
  std::swap(of(Opcode::backward_input)->routed_bytes, of(Opcode::backward_weight)->routed_bytes);
  const std::vector<std::string> faults = validate(p);
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_NE(faults[0].find("BACKWARD_WEIGHT unit 2 micro 0: sends rows of experts"), std::string::npos) << faults[0];
  EXPECT_NE(faults[1].find("BACKWARD_INPUT unit 2 micro 0: sends no rows of experts, [2] does"), std::string::npos)
      << faults[1];
}

}  // namespace
}  // namespace tern
