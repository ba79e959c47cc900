// Counted bytes equal the closed forms of spec/unit_cost.h, to the byte.

#include <fmt/format.h>

#include "formats/format_test_support.h"
#include "kernels/onednn/fast_matmul.h"
#include "model/coded_base.h"
#include "model/coded_model_testing.h"
#include "model/initial_weights.h"
#include "model/model_files.h"
#include "model/model_testing.h"

namespace tern {
namespace {

struct Counted {
  int64_t kept, peak;  // bytes still there after the call, and the most while it ran, above what was there before
};

Counted count(Arena& arena, const std::function<void()>& call) {
  const int64_t before = arena.current_total();
  const PeakScope scope(arena);
  call();
  return {arena.current_total() - before, scope.peak().total - before};
}

// `file`: of weights; none: random ones.
void expect_unit(const ModelSpec& spec, int index, const Rows& rows, DType dtype, Multiply multiply,
                 const std::string& file = "") {
  Arena arena;
  const Compute c{.arena = arena, .multiply = multiply, .dropout = DropoutPlace{}};
  const auto T = static_cast<int64_t>(rows.tokens.size());
  const Unit& unit = spec.units[static_cast<size_t>(index)];
  const UnitCost cost =
      unit_cost(unit, {.tokens = T, .attended_pairs = 0, .dtype = dtype, .scratch = scratch_bytes(multiply, dtype)});
  ModelWeights weights = file.empty() ? random_weights(spec, dtype, arena, 1) : load_weights(spec, file, dtype, arena);
  if (!file.empty()) measure_rows(spec, file, dtype, weights, arena), initialize_adapters(spec, weights, 1);
  ModelWeights gradients = zero_gradients(spec, dtype, arena);
  const auto at = static_cast<size_t>(index);
  const UnitWeights& mine = weights.units[at];
  const Tensor x = arena.zeros(dtype, {T, spec.width}, MemoryClass::activations);
  const Tensor dy = arena.zeros(dtype, {T, spec.width}, MemoryClass::activations);
  std::vector<int32_t> targets = random_tokens(T, spec.vocab, 5);
  if (T == 300) std::fill(targets.begin() + 5, targets.end(), -1);
  const bool is_head = std::holds_alternative<HeadSpec>(unit.spec), is_embed = index == 0;
  SCOPED_TRACE(fmt::format("unit {}, {} tokens, {}, {}", index, T, name_of(dtype),
                           multiply == Multiply::fast ? "fast" : "exact"));

  UnitSaved saved;
  Tensor y, dx;
  const Counted unsaved = count(arena, [&] {
    if (is_head)
      head_losses(spec, weights, x, targets, c);
    else
      y = unit_forward(spec, index, mine, rows, x, nullptr, nullptr, c);
  });
  EXPECT_EQ(unsaved.kept, cost.output_bytes) << "forward without saving";
  EXPECT_EQ(unsaved.peak, cost.output_bytes + cost.unsaved_workspace) << "forward without saving";
  y = {};

  const Counted forward = count(arena, [&] {
    if (is_head)
      head_forward_loss(spec, head_of(weights), rows, x, targets, 1, saved.emplace<HeadSaved>(), head_of(gradients), c);
    else
      y = unit_forward(spec, index, mine, rows, x, &saved, nullptr, c);
  });
  EXPECT_EQ(forward.kept, cost.output_bytes + cost.saved_bytes) << "forward";
  EXPECT_EQ(forward.peak, forward.kept + cost.forward_workspace) << "forward";

  if (!is_embed) {
    const Counted input = count(arena, [&] { dx = unit_backward_input(spec, index, mine, rows, dy, saved, c); });
    EXPECT_EQ(input.kept, dx.bytes() + cost.left_bytes) << "backward_input";
    EXPECT_EQ(input.peak, input.kept + cost.backward_input_workspace) << "backward_input";
  }
  const Counted weight =
      count(arena, [&] { unit_backward_weight(spec, index, mine, rows, dy, saved, gradients.units[at], c); });
  EXPECT_EQ(weight.kept, 0) << "backward_weight";
  EXPECT_EQ(weight.peak, cost.backward_weight_workspace) << "backward_weight";
}

// Two tiles of rows and a tail, of which few have a loss.
TEST(UnitCost, TheBytesOfAHeadDoNotDependOnItsTargets) {
  for_each_variant([](const std::string& variant, const ModelSpec& spec) {
    SCOPED_TRACE(variant);
    const RopeTable rope = rope_table(spec, 300, 300);
    const std::vector<int32_t> tokens = random_tokens(300, spec.vocab, 3);
    const Rows rows = make_rows(tokens, {0, 300}, &rope);
    for (const Multiply multiply : {Multiply::exact, Multiply::fast})
      expect_unit(spec, static_cast<int>(spec.units.size()) - 1, rows, DType::bf16, multiply);
  });
}

TEST(UnitCost, CountedBytesEqualTheClosedFormsToTheByte) {
  for_each_variant([](const std::string& variant, const ModelSpec& spec) {
    SCOPED_TRACE(variant);
    const RopeTable rope = rope_table(spec, 256, 256);
    for (const int64_t T : {1, 17, 128, 150}) {  // 150: a head's tile and a tail
      const std::vector<int32_t> tokens = random_tokens(T, spec.vocab, 3);
      const Rows rows = make_rows(tokens, {0, T / 3, T}, &rope);
      for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
        for (const Multiply multiply : {Multiply::exact, Multiply::fast}) {
          // Each new shape costs oneDNN a compilation; f64 has one multiplier.
          if (multiply == Multiply::fast && (dtype == DType::f64 || T == 1 || T == 128)) continue;
          for (int unit = 0; unit < static_cast<int>(spec.units.size()); ++unit)
            if (spec.units[static_cast<size_t>(unit)].layer < 1)
              expect_unit(spec, unit, rows, dtype, multiply);  // layers are alike
        }
    }
  });
}

// What is frozen has no gradients, adapters keep nothing, and one that is trained alone leaves what its weights' part
// reads.
TEST(UnitCost, CountedBytesOfFrozenUnitsAndAdaptersEqualTheClosedForms) {
  for_each_dense_variant([](const std::string& variant, const ModelSpec& full) {
    SCOPED_TRACE(variant);
    const RopeTable rope = rope_table(full, 64, 64);
    const std::vector<int32_t> tokens = random_tokens(17, full.vocab, 3);
    const Rows rows = make_rows(tokens, {0, 5, 17}, &rope);
    ModelSpec both = with_adapters(full, 3);
    for (Unit& unit : both.units) unit.frozen = false;
    const ModelSpec pooled = with_balance(with_uneven_adapters(full), 2, 1),
                    balanced = with_balance(with_adapters(full, 40), 2, 2),
                    repeated = with_balance(with_uneven_adapters(full), 1, 2);
    for (const ModelSpec& spec :
         {with_adapters(full, 0), with_adapters(full, 3), with_adapters(full, 40), with_uneven_adapters(full), both,
          pooled, balanced, repeated, with_elastic(with_uneven_adapters(full), 0.1),
          with_elastic(with_adapters(full, 40)), with_magnitudes(with_adapters(full, 3)),
          with_magnitudes(with_uneven_adapters(full), 0.1), with_magnitudes(both)})
      for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
        for (const Multiply multiply : {Multiply::exact, Multiply::fast})
          for (int unit = 0; unit < static_cast<int>(spec.units.size()); ++unit) {
            if (multiply == Multiply::fast && (dtype == DType::f64 || unit % 2 == 1)) continue;
            if (spec.units[static_cast<size_t>(unit)].layer < 1) expect_unit(spec, unit, rows, dtype, multiply);
          }
  });
}

TEST(UnitCost, CountedBytesBesideCodedMatricesEqualTheClosedForms) {
  const TemporaryDirectory dir;
  for (const bool tied : {false, true}) {
    const HfConfig config = coded_config("llama", tied);
    const std::string file = dir / (tied ? "tied.gguf" : "own.gguf");
    write_coded_model(config, {WeightType::q4_0, WeightType::q6_k, WeightType::q4_1}, file);
    const ModelSpec full = model_spec(config);
    const RopeTable rope = rope_table(full, 256, 256);
    const std::vector<int32_t> tokens = random_tokens(150, full.vocab, 3);
    const Rows rows = make_rows(tokens, {0, 50, 150}, &rope);
    for (const ModelSpec& adapted : {with_adapters(full, 3), with_uneven_adapters(full), with_adapters(full, 300),
                                     with_magnitudes(with_uneven_adapters(full), 0.1)})
      for (const DType dtype : {DType::f32, DType::bf16})
        for (const Multiply multiply : {Multiply::exact, Multiply::fast}) {
          if (multiply == Multiply::fast && adapted.units[1].adapters.front().rank != 3) continue;  // oneDNN compiles
          const ModelSpec spec = with_stored_matrices(adapted, file, dtype);
          ASSERT_TRUE(has_stored_matrices(spec));
          for (int unit = 0; unit < static_cast<int>(spec.units.size()); ++unit)
            expect_unit(spec, unit, rows, dtype, multiply, file);
        }
  }
}

void expect_bytes_of_weights(const std::string& variant, const ModelSpec& spec) {
  SCOPED_TRACE(variant);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    Arena arena;
    UnitCost sum;
    for (const Unit& unit : spec.units) {
      const UnitCost cost = unit_cost(unit, {.tokens = 0, .attended_pairs = 0, .dtype = dtype, .scratch = {}});
      sum.parameters += cost.parameters, sum.parameter_bytes += cost.parameter_bytes,
          sum.gradient_bytes += cost.gradient_bytes;
    }
    const ModelWeights weights = random_weights(spec, dtype, arena, 1);
    const ModelWeights gradients = zero_gradients(spec, dtype, arena);
    EXPECT_EQ(arena.current()[static_cast<size_t>(MemoryClass::weights)], sum.parameter_bytes);
    EXPECT_EQ(arena.current()[static_cast<size_t>(MemoryClass::gradients)], sum.gradient_bytes);
    EXPECT_EQ(sum.parameters, num_parameters(spec));
  }
}

TEST(UnitCost, WeightsAndGradientsTakeThePredictedBytes) {
  for_each_variant(expect_bytes_of_weights);
  for_each_dense_variant([](const std::string& variant, const ModelSpec& spec) {
    expect_bytes_of_weights(variant + ", adapters", with_adapters(spec, 3));
    expect_bytes_of_weights(variant + ", adapters of some modules", with_uneven_adapters(spec));
    expect_bytes_of_weights(variant + ", magnitudes", with_magnitudes(with_uneven_adapters(spec)));
    expect_bytes_of_weights(variant + ", frozen", with_adapters(spec, 0));
  });
}

}  // namespace
}  // namespace tern
