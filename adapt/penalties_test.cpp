// What EWC and O-LoRA add to gradients, against finite differences of what they add to the loss.
#include "adapt/penalties.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

std::vector<double> random_numbers(int64_t count, uint64_t seed) {
  std::vector<double> m(static_cast<size_t>(count));
  for (size_t i = 0; i < m.size(); ++i) m[i] = random_normal({seed, 7}, i);
  return m;
}

// A parameter of (rows, width) in f64.
struct Case {
  Arena arena;
  std::vector<ParameterInfo> infos;
  std::vector<Tensor> masters, gradients;
  Case(int64_t rows, int64_t width) {
    infos.push_back({"p.a", {rows, width}, 0, true, false, 0, {}});
    masters.push_back(arena.allocate(DType::f64, {rows, width}, MemoryClass::weights));
    gradients.push_back(arena.zeros(DType::f64, {rows, width}, MemoryClass::gradients));
    std::ranges::copy(random_numbers(rows * width, 1), masters[0].span<double>().begin());
  }
  StepGradients step() const { return {1, infos, masters, gradients}; }
};

// d loss of every element by central differences.
template <class Loss>
void expect_gradient(Case& c, Loss&& loss) {
  constexpr double kStep = 1e-5;
  for (int64_t i = 0; i < c.masters[0].count(); ++i) {
    double& x = c.masters[0].span<double>()[static_cast<size_t>(i)];
    const double at = x;
    x = at + kStep;
    const double above = loss();
    x = at - kStep;
    const double below = loss();
    x = at;
    EXPECT_NEAR(c.gradients[0].span<double>()[static_cast<size_t>(i)], (above - below) / (2 * kStep), 1e-8);
  }
}

TEST(Penalties, EwcPullsToWhereNumbersWere) {
  Case c(3, 5);
  const NamedMatrices anchors{{"p.a.value", {5, random_numbers(15, 2)}},
                              {"p.a.importance", {5, random_numbers(15, 3)}}};
  add_ewc_gradient(anchors, 0.7, c.step());
  expect_gradient(c, [&] {
    double sum = 0;
    for (size_t i = 0; i < 15; ++i) {
      const double away = c.masters[0].span<double>()[i] - anchors.at("p.a.value").numbers[i];
      sum += 0.35 * anchors.at("p.a.importance").numbers[i] * away * away;
    }
    return sum;
  });
}

TEST(Penalties, OloraTurnsRowsFromOldOnes) {
  Case c(2, 5);
  const NamedMatrices past{{"p.a", {5, random_numbers(20, 4)}}};
  add_olora_gradient(past, 0.5, c.step());
  expect_gradient(c, [&] {
    double sum = 0;
    for (size_t r = 0; r < 2; ++r)
      for (size_t o = 0; o < 4; ++o) {
        double dot = 0;
        for (size_t k = 0; k < 5; ++k)
          dot += c.masters[0].span<double>()[r * 5 + k] * past.at("p.a").numbers[o * 5 + k];
        sum += 0.5 * std::abs(dot);
      }
    return sum;
  });
  Case other(2, 5);
  other.infos[0].name = "p.b";
  add_olora_gradient(past, 0.5, other.step());
  for (const double g : other.gradients[0].span<double>()) EXPECT_EQ(g, 0);
}

}  // namespace
}  // namespace tern
