// Finite differences in f64 of every unit, in every variant, along random directions of the input and of every weight.

#include "model/model_testing.h"
#include "model/sum_gradients.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

constexpr uint64_t kSeed = 20260101;
constexpr double kStep = 2e-6;       // central: error ~ h² of third derivatives (a norm of short heads has large ones)
constexpr double kTolerance = 2e-7;  // of the gradient's norm along a unit direction, kinks of relu aside

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) sum += element(a, i) * element(b, i);
  return sum;
}

// f along t + s·direction at s = ±h.
double slope(const Tensor& t, const Tensor& direction, const std::function<double()>& f) {
  Arena arena;
  const Tensor before = arena.allocate(DType::f64, t.shape(), MemoryClass::staging);
  std::memcpy(before.data(), t.data(), static_cast<size_t>(t.bytes()));
  double value[2];
  for (const int side : {0, 1}) {
    for (int64_t i = 0; i < t.count(); ++i)
      set_element(t, i, element(before, i) + (side ? kStep : -kStep) * element(direction, i));
    value[side] = f();
  }
  std::memcpy(t.data(), before.data(), static_cast<size_t>(t.bytes()));
  return (value[1] - value[0]) / (2 * kStep);
}

void expect_gradient(const std::string& what, const Tensor& t, const Tensor& gradient, const std::function<double()>& f,
                     uint64_t directions = 3) {
  Arena arena;
  const Tensor direction = arena.allocate(DType::f64, t.shape(), MemoryClass::staging);
  for (uint64_t round = 0; round < directions; ++round) {
    fill_normal(direction, 1, kSeed + round + hash_name(what));
    const double want = slope(t, direction, f), got = dot(gradient, direction);
    const double scale = std::sqrt(dot(gradient, gradient)) + std::abs(want);
    EXPECT_GT(scale, 0) << what << ": nothing flows here, so nothing is tested";
    EXPECT_LE(std::abs(got - want), kTolerance * scale)
        << what << ": derivative " << want << ", gradient gives " << got;
  }
}

// Norms of rows of the whole, as constants.
void hold_lengths(const ModelSpec& spec, ModelWeights& weights, Arena& arena) {
  for_each_linear(spec, weights, [&](const ParameterInfo&, Linear& linear) {
    for (Branch& b : linear.branches) {
      if (!b.has_magnitude) continue;
      b.lengths = arena.allocate(DType::f64, {b.row_end - b.row_begin}, MemoryClass::weights);
      for (int64_t n = b.row_begin; n < b.row_end; ++n) {
        double squares = 0;
        for (int64_t k = 0; k < linear.in; ++k) {
          double x = element(dense_rows(linear), n * linear.in + k);
          for (int64_t r = 0; r < b.rank; ++r)
            x += b.scale * element(b.b, (n - b.row_begin) * b.rank + r) * element(b.a, r * linear.in + k);
          squares += x * x;
        }
        set_element(b.lengths, n - b.row_begin, std::sqrt(squares));
      }
    }
  });
}

// Each unit by itself: the gradient of its input, and of everything that it trains.
void expect_unit_gradients(const std::string& variant, const ModelSpec& spec) {
  SCOPED_TRACE(variant);
  Arena arena;
  arena.set_poison(true);
  const Compute c{.arena = arena, .dropout = DropoutPlace{1, 2, 3}};
  const std::vector<int32_t> tokens = random_tokens(17, spec.vocab, kSeed);
  const RopeTable rope = rope_table(spec, 32, 32);
  const Rows rows = make_rows(tokens, {0, 6, 7, 17}, &rope);  // packed: 6, 1 and 10 tokens
  ModelWeights weights = random_weights(spec, DType::f64, arena, kSeed);
  hold_lengths(spec, weights, arena);
  const int head = static_cast<int>(spec.units.size()) - 1;
  const Tensor x = arena.allocate(DType::f64, {17, spec.width}, MemoryClass::activations);
  const Tensor dy = arena.allocate(DType::f64, {17, spec.width}, MemoryClass::activations);
  fill_normal(x, 1, kSeed + 1);
  fill_normal(dy, 1, kSeed + 2);
  std::vector<int32_t> targets = random_tokens(17, spec.vocab, kSeed + 3);
  targets[5] = targets[16] = -1;

  for (int unit = 0; unit <= head; ++unit) {
    ModelWeights gradients = zero_gradients(spec, DType::f64, arena);
    const UnitWeights& mine = weights.units[static_cast<size_t>(unit)];
    UnitSaved saved;
    Tensor dx;
    std::function<double()> f;
    if (unit == head) {
      f = [&] {
        double sum = 0;
        for (const double loss : head_losses(spec, weights, x, targets, c)) sum += loss;
        return 0.7 * sum;
      };
      const double loss = head_forward_loss(spec, head_of(weights), rows, x, targets, 0.7, saved.emplace<HeadSaved>(),
                                            head_of(gradients), c);
      EXPECT_NEAR(0.7 * loss, f(), 1e-12 * std::abs(loss));
    } else {
      f = [&, unit] { return dot(unit_forward(spec, unit, mine, rows, x, nullptr, nullptr, c), dy); };
      unit_forward(spec, unit, mine, rows, x, &saved, nullptr, c);
    }
    if (unit > 0) dx = unit_backward_input(spec, unit, mine, rows, unit == head ? Tensor{} : dy, saved, c);
    unit_backward_weight(spec, unit, mine, rows, dy, saved, gradients.units[static_cast<size_t>(unit)], c);
    join_tied_gradients(spec, gradients);

    if (unit > 0) expect_gradient("input of unit " + std::to_string(unit), x, dx, f);
    std::vector<Tensor*> w = trained_tensors(spec, weights), g = trained_tensors(spec, gradients);
    const std::vector<ParameterInfo> infos = trained_parameters(spec);
    for (size_t i = 0; i < infos.size(); ++i) {
      const bool tied_here = unit == head && spec.head().tied && infos[i].name == "embed.tokens";
      if (infos[i].unit == unit || tied_here)
        expect_gradient(infos[i].name, *w[i], *g[i], f);
      else
        EXPECT_EQ(dot(*g[i], *g[i]), 0) << infos[i].name << " is not of unit " << unit;
    }
  }
}

TEST(UnitGradients, AgreeWithFiniteDifferencesInEveryVariant) { for_each_variant(expect_unit_gradients); }

TEST(UnitGradients, OfAdaptersBesideFrozenWeightsAgreeWithFiniteDifferences) {
  for_each_dense_variant([](const std::string& variant, const ModelSpec& spec) {
    expect_unit_gradients(variant + ", adapters", with_adapters(spec, 3, 0.7));
    expect_unit_gradients(variant + ", adapters of some modules", with_uneven_adapters(spec));
  });
}

TEST(UnitGradients, OfAdaptersThatPoolAndRepeatAgreeWithFiniteDifferences) {
  const ModelSpec spec = with_adapters(model_spec(tiny_config("llama")), 3, 0.7);
  expect_unit_gradients("llama, pooled", with_balance(spec, 4, 1));
  expect_unit_gradients("llama, repeated", with_balance(spec, 1, 4));
  expect_unit_gradients("llama, balanced", with_balance(spec, 2, 2));
  ModelSpec dropped = with_balance(spec, 4, 2);
  for (Unit& unit : dropped.units)
    for (ModuleAdapter& a : unit.adapters) a.dropout = 0.3;
  expect_unit_gradients("llama, balanced with dropout", dropped);
}

TEST(UnitGradients, OfElasticAdaptersAgreeWithFiniteDifferences) {
  for_each_dense_variant([](const std::string& variant, const ModelSpec& spec) {
    expect_unit_gradients(variant + ", elastic", with_elastic(with_uneven_adapters(spec)));
  });
  expect_unit_gradients("llama, elastic with dropout",
                        with_elastic(with_adapters(model_spec(tiny_config("llama")), 4, 0.7), 0.3));
}

// DoRA: no gradient flows through the norms of rows, so they are held while numbers move.
TEST(UnitGradients, OfMagnitudesAgreeWithFiniteDifferencesAtFixedNorms) {
  for_each_dense_variant([](const std::string& variant, const ModelSpec& spec) {
    expect_unit_gradients(variant + ", magnitudes", with_magnitudes(with_uneven_adapters(spec)));
  });
  ModelSpec trained = with_magnitudes(with_adapters(model_spec(tiny_config("llama")), 2));
  for (Unit& unit : trained.units) unit.frozen = false;
  expect_unit_gradients("llama, magnitudes beside trained weights", trained);
}

TEST(UnitGradients, OfDropoutAgreeWithFiniteDifferences) {
  ModelSpec spec = with_adapters(model_spec(tiny_config("llama")), 3, 0.7);
  for (Unit& unit : spec.units)
    for (ModuleAdapter& a : unit.adapters) a.dropout = 0.3;
  expect_unit_gradients("llama, dropout", spec);
  expect_unit_gradients("llama, dropout and magnitudes", with_magnitudes(spec, 0.3));
}

TEST(UnitGradients, OfAdaptersBesideTrainedWeightsAgreeWithFiniteDifferences) {
  ModelSpec spec = with_adapters(model_spec(tiny_config("llama")), 2);
  for (Unit& unit : spec.units) unit.frozen = false;
  expect_unit_gradients("llama", spec);
}

TEST(UnitGradients, OfTheWholeModelAgreeWithFiniteDifferences) {
  for_each_variant([](const std::string& variant, const ModelSpec& spec) {
    SCOPED_TRACE(variant);
    Arena arena;
    const Compute c{arena};
    const std::vector<int32_t> tokens = random_tokens(11, spec.vocab, kSeed + 9);
    const RopeTable rope = rope_table(spec, 32, 32);
    const Rows rows = make_rows(tokens, {0, 4, 11}, &rope);
    std::vector<int32_t> targets = random_tokens(11, spec.vocab, kSeed + 10);
    ModelWeights weights = random_weights(spec, DType::f64, arena, kSeed + 11),
                 gradients = zero_gradients(spec, DType::f64, arena);
    add_gradients(spec, weights, rows, targets, 0.1, gradients, c);
    join_tied_gradients(spec, gradients);
    const auto f = [&] {
      double sum = 0;
      for (const double loss : head_losses(spec, weights, model_forward(spec, weights, rows, nullptr, c), targets, c))
        sum += loss;
      return 0.1 * sum;
    };
    std::vector<Tensor*> w = tensors(spec, weights), g = tensors(spec, gradients);
    const std::vector<ParameterInfo> infos = parameters(spec);
    for (size_t i = 0; i < infos.size(); ++i) expect_gradient(infos[i].name, *w[i], *g[i], f, 1);
  });
}

}  // namespace
}  // namespace tern
