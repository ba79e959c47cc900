// The head takes the rows that have a loss: what comes out is what each row gives by itself.

#include <fmt/format.h>

#include <utility>

#include "model/model_testing.h"
#include "model/ops.h"

namespace tern {
namespace {

struct HeadRun {
  double loss = 0;
  Tensor dx;
};
HeadRun run_head(const ModelSpec& spec, const ModelWeights& weights, const Tensor& x, std::span<const int32_t> targets,
                 ModelWeights& gradients, const Compute& c) {
  const int head = static_cast<int>(spec.units.size()) - 1;
  const std::vector<int32_t> tokens(targets.size(), 0);
  const Rows rows = make_rows(tokens, {0, static_cast<int64_t>(tokens.size())}, nullptr);
  UnitSaved saved;
  HeadRun run;
  run.loss = head_forward_loss(spec, head_of(weights), rows, x, targets, 0.7, saved.emplace<HeadSaved>(),
                               head_of(gradients), c);
  run.dx = unit_backward_input(spec, head, weights.units.back(), rows, {}, saved, c);
  unit_backward_weight(spec, head, weights.units.back(), rows, {}, saved, gradients.units.back(), c);
  return run;
}

void expect_rows_alone(const std::string& variant, const ModelSpec& spec, int64_t T,
                       const std::vector<int64_t>& with_loss) {
  SCOPED_TRACE(fmt::format("{}, {} rows, {} of them with a loss", variant, T, with_loss.size()));
  Arena arena;
  arena.set_poison(true);
  const Compute c{.arena = arena};
  const ModelWeights weights = random_weights(spec, DType::f64, arena, 1);
  const Tensor x = arena.allocate(DType::f64, {T, spec.width}, MemoryClass::activations);
  fill_normal(x, 1, 2);
  const std::vector<int32_t> of_rows = random_tokens(T, spec.vocab, 3);
  std::vector<int32_t> targets(static_cast<size_t>(T), -1);
  for (const int64_t row : with_loss) targets[static_cast<size_t>(row)] = of_rows[static_cast<size_t>(row)];

  ModelWeights whole = zero_gradients(spec, DType::f64, arena), single = zero_gradients(spec, DType::f64, arena);
  const HeadRun all = run_head(spec, weights, x, targets, whole, c);
  const std::vector<double> losses = head_losses(spec, weights, x, targets, c);
  double sum = 0;
  for (int64_t row = 0; row < T; ++row) {
    const auto target = std::span(targets).subspan(static_cast<size_t>(row), 1);
    const HeadRun one = run_head(spec, weights, x.rows_view(row, row + 1), target, single, c);
    sum += one.loss;
    EXPECT_NEAR(losses[static_cast<size_t>(row)], one.loss, 1e-12 * (1 + one.loss)) << "row " << row;
    EXPECT_TRUE(same_bits(all.dx.rows_view(row, row + 1), one.dx)) << "row " << row;
    for (int64_t i = 0; target[0] < 0 && i < one.dx.count(); ++i) EXPECT_EQ(element(one.dx, i), 0) << "row " << row;
  }
  EXPECT_NEAR(all.loss, sum, 1e-12 * (1 + sum));
  const std::vector<Tensor*> a = trained_tensors(spec, whole), b = trained_tensors(spec, single);
  for (size_t i = 0; i < a.size(); ++i)
    for (int64_t k = 0; k < a[i]->count(); ++k) EXPECT_NEAR(element(*a[i], k), element(*b[i], k), 1e-12);
}

// Two tiles of the fused head (where the processor has one) and a tail, of which every third row has a loss: as those rows by themselves.
TEST(HeadRows, TheFusedHeadSkipsRowsToo) {
  constexpr int64_t kRows = 1100;
  const ModelSpec spec = model_spec(tiny_config("llama"));
  Arena arena;
  arena.set_poison(true);
  const Compute c{.arena = arena, .multiply = Multiply::fast};
  const ModelWeights weights = random_weights(spec, DType::bf16, arena, 1);
  const Tensor x = arena.allocate(DType::bf16, {kRows, spec.width}, MemoryClass::activations);
  fill_normal(x, 1, 2);
  std::vector<int32_t> targets = random_tokens(kRows, spec.vocab, 3), few;
  std::vector<int64_t> with_loss;
  for (int64_t row = 0; row < kRows; ++row) {
    int32_t& target = targets[static_cast<size_t>(row)];
    row % 3 == 0 ? with_loss.push_back(row), few.push_back(target) : void(target = -1);
  }
  const Tensor few_x = arena.allocate(DType::bf16, {std::ssize(few), spec.width}, MemoryClass::activations);
  for (int64_t i = 0; i < std::ssize(few); ++i)
    ops::copy(x.rows_view(with_loss[static_cast<size_t>(i)], with_loss[static_cast<size_t>(i)] + 1),
              few_x.rows_view(i, i + 1));
  ModelWeights whole = zero_gradients(spec, DType::bf16, arena), alone = zero_gradients(spec, DType::bf16, arena);
  const HeadRun all = run_head(spec, weights, x, targets, whole, c),
                some = run_head(spec, weights, few_x, few, alone, c);
  EXPECT_NEAR(all.loss, some.loss, 1e-4 * some.loss);
  int64_t next = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    const Tensor dx = all.dx.rows_view(row, row + 1);
    const bool has_loss = row % 3 == 0;
    for (int64_t k = 0; k < spec.width; ++k) {
      const double want = has_loss ? element(some.dx, next * spec.width + k) : 0;
      EXPECT_NEAR(element(dx, k), want, has_loss ? 0.02 * std::abs(want) + 1e-3 : 0) << "row " << row;
    }
    next += has_loss;
  }
  const std::vector<Tensor*> a = trained_tensors(spec, whole), b = trained_tensors(spec, alone);
  for (size_t i = 0; i < a.size(); ++i)
    for (int64_t k = 0; k < a[i]->count(); ++k)
      EXPECT_NEAR(element(*a[i], k), element(*b[i], k), 0.02 * std::abs(element(*b[i], k)) + 0.02);
}

TEST(HeadRows, RowsWithoutALossChangeNothingOfTheOthers) {
  std::vector<int64_t> many;  // a whole tile and one more
  for (int64_t row = 120; row < 249; ++row) many.push_back(row);
  bool first = true;
  for_each_variant([&](const std::string& variant, const ModelSpec& spec) {
    // Two whole tiles of 128 and a tail; rows at every border.
    expect_rows_alone(variant, spec, 300, {3, 127, 128, 130, 255, 290});
    if (!std::exchange(first, false)) return;
    expect_rows_alone(variant, spec, 300, {});
    expect_rows_alone(variant, spec, 256, {255});
    expect_rows_alone(variant, spec, 17, {0, 16});
    expect_rows_alone(variant, spec, 384, many);
  });
}

}  // namespace
}  // namespace tern
