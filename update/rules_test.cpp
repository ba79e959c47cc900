// What holds for every update rule, and what only some promise.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "kernels/kernel_testing.h"
#include "update/norm.h"
#include "update/rule_testing.h"

namespace tern {
namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && (a.empty() || std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0);
}
bool same_state(const RuleRun& a, const RuleRun& b) {
  bool equal = true;
  for (size_t p = 0; p < a.pass.weights.size(); ++p) {
    equal = equal && same(a.pass.weights[p], b.pass.weights[p]) && same(a.state.master[p], b.state.master[p]);
    for (size_t s = 0; s < a.state.slots.size(); ++s) equal = equal && same(a.state.slots[s][p], b.state.slots[s][p]);
  }
  return equal;
}
void copy_state(const RuleRun& from, RuleRun& to) {
  const auto copy = [](const Tensor& a, const Tensor& b) {
    if (!a.empty()) std::memcpy(b.data(), a.data(), static_cast<size_t>(a.bytes()));
  };
  for (size_t p = 0; p < from.state.master.size(); ++p) {
    copy(from.state.master[p], to.state.master[p]);
    for (size_t s = 0; s < from.state.slots.size(); ++s) copy(from.state.slots[s][p], to.state.slots[s][p]);
    round_master(to.state.master[p], to.pass.weights[p]);
  }
}
void do_step(RuleRun& run, int64_t step) {
  run.set_gradients([&](const std::string& name, int64_t i) { return random_gradient(name, step, i); });
  run.step(step, [](int64_t s) { return 0.02 * std::min(1.0, static_cast<double>(s) / 3); });
}

TEST(UpdateRules, EveryRuleIsResumedToTheBit) {
  for (const UpdateConfig& config : configs_of_every_rule())
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      SCOPED_TRACE(std::string(name_of(config.rule)) + " " + std::string(name_of(dtype)));
      RuleRun whole(config, dtype, some_forms(), random_first), begun(config, dtype, some_forms(), random_first);
      for (int64_t step = 1; step <= 13; ++step) do_step(whole, step);
      for (int64_t step = 1; step <= 6; ++step) do_step(begun, step);
      RuleRun resumed(config, dtype, some_forms(), [](const std::string&, int64_t) { return 0.0; });
      copy_state(begun, resumed);
      put_weights_at(resumed.pass, WeightPoint::computing);
      EXPECT_TRUE(same_state(resumed, begun)) << "before the first step";
      for (int64_t step = 7; step <= 13; ++step) {
        do_step(resumed, step);
        put_weights_at(resumed.pass, WeightPoint::saved);  // an evaluation between steps changes nothing
        put_weights_at(resumed.pass, WeightPoint::computing);
      }
      EXPECT_TRUE(same_state(resumed, whole));
    }
}

// The f32 rules against their twins, which are what f64 models run.
TEST(UpdateRules, EveryRuleEqualsItsTwinInDoubles) {
  for (const UpdateConfig& config : configs_of_every_rule())
    for_each_isa([&] {
      SCOPED_TRACE(name_of(config.rule));
      RuleRun fast(config, DType::f32, some_forms(), random_first);
      RuleRun twin(config, DType::f64, some_forms(), [](const std::string& name, int64_t i) {
        return static_cast<double>(static_cast<float>(random_first(name, i)));
      });
      for (int64_t step = 1; step <= 20; ++step) {
        do_step(fast, step);
        twin.set_gradients([&](const std::string& name, int64_t i) {
          return static_cast<double>(static_cast<float>(random_gradient(name, step, i)));
        });
        twin.step(step, [](int64_t s) { return 0.02 * std::min(1.0, static_cast<double>(s) / 3); });
      }
      for (size_t p = 0; p < fast.pass.weights.size(); ++p)
        EXPECT_TRUE(is_close(std::span<const float>(fast.state.master[p].span<float>()),
                             values_of(twin.state.master[p]), {.absolute = 2e-6}))
            << fast.state.infos[p].name;
    });
}

// ZeRO cuts parameters into whole blocks: a rule that takes intervals gives the bits of the whole, its sums being added in the order
// of blocks wherever each was taken.
TEST(UpdateRules, IntervalsGiveTheBitsOfTheWhole) {
  constexpr int64_t kElements = 2 * kUpdateBlock + 77;
  for (const UpdateConfig& config : configs_of_every_rule())
    for (const ParameterKind kind : {ParameterKind::matrix, ParameterKind::table, ParameterKind::vector})
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const ParameterForm form{kind, 1, kElements};
        if (row_of(config.rule).grain(form) != UpdateGrain::interval) continue;
        SCOPED_TRACE(std::string(name_of(config.rule)) + " " + std::string(name_of(dtype)));
        const auto any = [](uint64_t stream, int64_t i) {  // many numbers, and cheap ones: 0.1 to 1.1
          return 0.1 +
                 static_cast<double>((static_cast<uint64_t>(i) * 2654435761u + stream * 40503u) >> 7 & 0xffffu) / 65536;
        };
        const auto make = [&] {
          return std::make_unique<RuleRun>(config, dtype, std::vector{std::pair{std::string("w"), form}},
                                           [&](const std::string&, int64_t i) { return any(0, i); });
        };
        const auto rate = [](int64_t s) { return 0.02 * static_cast<double>(s); };
        const auto whole = make(), cut = make();
        for (int64_t step = 1; step <= 2; ++step) {
          for (RuleRun* run : {whole.get(), cut.get()})
            run->set_gradients(
                [&](const std::string&, int64_t i) { return any(static_cast<uint64_t>(step), i) - 0.6; });
          whole->step(step, rate);
          begin_step(cut->pass, step, rate);
          const UpdateShard all = shard_of(cut->pass, gradient_norm(cut->pass), 0);
          std::vector<UpdateShard> parts;
          for (int64_t begin = 0; begin < kElements; begin += kUpdateBlock)
            parts.push_back(interval_of(all, begin, std::min(begin + kUpdateBlock, kElements)));
          UpdateSumValues sums{};
          if (num_sums(config) > 0 && row_of(config.rule).sums.over == UpdateSums::Over::parameter)
            for (const UpdateShard& part : parts) {
              const UpdateSumValues own = functions_of(config.rule).measure(part);
              for (size_t k = 0; k < sums.size(); ++k) sums[k] += own[k];
            }
          for (size_t p = parts.size(); p-- > 0;) {
            parts[p].sums = sums;
            functions_of(config.rule).step(parts[p]);
          }
        }
        EXPECT_TRUE(same_state(*cut, *whole));
        EXPECT_TRUE(same(cut->pass.gradients[0], whole->pass.gradients[0]));
      }
}

TEST(UpdateRules, NaNIsRefusedByEveryRuleAndChangesNothing) {
  for (const UpdateConfig& config : configs_of_every_rule()) {
    SCOPED_TRACE(name_of(config.rule));
    RuleRun run(config, DType::f32, some_forms(), random_first), before(config, DType::f32, some_forms(), random_first);
    do_step(run, 1), do_step(before, 1);
    run.set_gradients([&](const std::string& name, int64_t i) { return name == "table" && i == 3 ? NAN : 0.1; });
    EXPECT_THROW(run.step(2, 0.02), Error);
    EXPECT_TRUE(same_state(run, before));
  }
}

// ‖u‖ <= 1/(1-β), so no step is longer than lr/(1-β); gradients that always point one way reach it.
TEST(Sngm, StepsAreNoLongerThanTheBound) {
  for (const double momentum : {0.0, 0.5, 0.9})
    for (const bool turning : {true, false}) {
      RuleRun run(update_config(UpdateRule::sngm, {{"weight-decay", 0}, {"epsilon", 0}, {"momentum", momentum}}),
                  DType::f64, some_forms(), random_first);
      double last = 0;
      for (int64_t step = 1; step <= 200; ++step) {
        std::vector<std::vector<double>> before;
        for (const Tensor& w : run.pass.weights) before.push_back(values_of(w));
        run.set_gradients([&](const std::string& name, int64_t i) {
          return std::pow(10.0, static_cast<double>(step % 9) - 4) * random_gradient(name, turning ? step : 1, i);
        });
        run.step(step, 0.01);
        double squares = 0;
        for (size_t p = 0; p < before.size(); ++p)
          for (size_t i = 0; i < before[p].size(); ++i)
            squares += std::pow(value_at(run.pass.weights[p], static_cast<int64_t>(i)) - before[p][i], 2);
        last = std::sqrt(squares);
        ASSERT_LE(last, 0.01 / (1 - momentum) * (1 + 1e-12)) << "step " << step;
      }
      if (!turning) { EXPECT_GE(last, 0.01 / (1 - momentum) * (1 - 1e-8)); }
    }
}

TEST(Sngm, LossTimes1024LeavesTheBits) {
  const UpdateConfig config = update_config(UpdateRule::sngm, {{"weight-decay", 0}, {"epsilon", 0}});
  RuleRun one(config, DType::f32, some_forms(), random_first), scaled(config, DType::f32, some_forms(), random_first);
  for (int64_t step = 1; step <= 20; ++step)
    for (RuleRun* run : {&one, &scaled}) {
      run->set_gradients([&](const std::string& name, int64_t i) {
        return (run == &scaled ? 1024.0 : 1.0) *
               static_cast<double>(static_cast<float>(random_gradient(name, step, i)));
      });
      run->step(step, 0.02);
    }
  EXPECT_TRUE(same_state(one, scaled));
}

// Rows of zeros, of weights and of gradients, change no norm: what else is there moves as before.
TEST(Sngm, PaddingLeavesTheBitsOfTheRest) {
  const UpdateConfig config = update_config(UpdateRule::sngm, {{"weight-decay", 0.1}});
  const auto padded_forms = [](int64_t rows) {
    return std::vector<std::pair<std::string, ParameterForm>>{{"w", {ParameterKind::matrix, rows, 8}},
                                                              {"v", {ParameterKind::vector, 1, 7}}};
  };
  const auto first = [](const std::string& name, int64_t i) {
    return name == "w" && i >= 40 ? 0.0 : random_first(name, i);
  };
  RuleRun plain(config, DType::f32, padded_forms(5), first), padded(config, DType::f32, padded_forms(9), first);
  for (int64_t step = 1; step <= 5; ++step)
    for (RuleRun* run : {&plain, &padded}) {
      run->set_gradients([&](const std::string& name, int64_t i) {
        return name == "w" && i >= 40 ? 0.0 : random_gradient(name, step, i);
      });
      run->step(step, 0.02);
    }
  for (int64_t i = 0; i < 40; ++i)
    EXPECT_EQ(plain.pass.weights[0].span<float>()[static_cast<size_t>(i)],
              padded.pass.weights[0].span<float>()[static_cast<size_t>(i)]);
  EXPECT_TRUE(same(plain.pass.weights[1], padded.pass.weights[1]));
}

// The norm is of g + wd·w, over matrices and vector together.
TEST(Sngm, TheNormHasTheDecayInItAndIsOfTheWholeModel) {
  RuleRun run(update_config(UpdateRule::sngm, {{"momentum", 0}, {"weight-decay", 0.5}, {"epsilon", 0}}), DType::f64,
              {{"w", {ParameterKind::matrix, 1, 2}}, {"v", {ParameterKind::vector, 1, 1}}},
              [](const std::string&, int64_t) { return 2.0; });
  run.set_gradients([](const std::string& name, int64_t i) { return name == "w" ? (i == 0 ? 1.0 : -1.0) : 6.0; });
  run.step(1, 0.1);
  const double norm = std::sqrt(2.0 * 2.0 + 0.0 + 6.0 * 6.0);
  EXPECT_DOUBLE_EQ(value_at(run.pass.weights[0], 0), 2 - 0.1 * 2 / norm);
  EXPECT_DOUBLE_EQ(value_at(run.pass.weights[0], 1), 2.0);
  EXPECT_DOUBLE_EQ(value_at(run.pass.weights[1], 0), 2 - 0.1 * 6 / norm);
}

// A step from zero without decay is rate · 0.2 · direction: the more uneven side of a matrix has unit root mean square, of a table the columns,
// of a vector the whole.
TEST(MeqMuon, AStepsDirectionHasUnitRootMeanSquareOnItsSide) {
  const auto lines_are_unit = [](const std::vector<double>& x, const ParameterForm& f, bool rows) {
    for (int64_t line = 0; line < (rows ? f.rows : f.columns); ++line) {
      double squares = 0;
      const int64_t length = rows ? f.columns : f.rows;
      for (int64_t i = 0; i < length; ++i)
        squares += std::pow(x[static_cast<size_t>(rows ? line * f.columns + i : i * f.columns + line)], 2);
      if (std::abs(std::sqrt(squares / static_cast<double>(length)) - 1) > 1e-12) return false;
    }
    return true;
  };
  RuleRun run(update_config(UpdateRule::meqmuon, {{"weight-decay", 0}}), DType::f64, some_forms(),
              [](const std::string&, int64_t) { return 0.0; });
  std::vector<std::vector<double>> before(run.pass.weights.size());
  for (int64_t step = 1; step <= 3; ++step) {
    for (size_t p = 0; p < before.size(); ++p) before[p] = values_of(run.pass.weights[p]);
    do_step(run, step);
    const double reach = 0.2 * 0.02 * static_cast<double>(step) / 3;
    for (size_t p = 0; p < before.size(); ++p) {
      std::vector<double> direction = values_of(run.pass.weights[p]);
      for (size_t i = 0; i < direction.size(); ++i) direction[i] = (before[p][i] - direction[i]) / reach;
      const ParameterForm& form = run.state.forms[p];
      const bool rows = lines_are_unit(direction, form, true), columns = lines_are_unit(direction, form, false);
      const bool unit = form.kind == ParameterKind::matrix  ? rows != columns
                        : form.kind == ParameterKind::table ? columns
                                                            : rows;
      EXPECT_TRUE(unit) << run.state.infos[p].name << " after step " << step;
    }
  }
}

// With all directions and scale 1 nothing is left out, whichever way the basis stands: plain SGD. Velocity stays where the basis changes, so with
// momentum there is one basis here.
TEST(Galore, AllDirectionsAreTheWholeRule) {
  for (const double momentum : {0.0, 0.9})
    for (const DType dtype : {DType::f32, DType::f64}) {
      UpdateConfig c = update_config(UpdateRule::galore_sgd, {{"momentum", momentum}, {"weight-decay", 0.1}});
      c.set_option("basis-every", momentum > 0 ? 100 : 3);
      RuleRun turned(c, dtype, some_forms(), random_first);
      RuleRun plain(update_config(UpdateRule::sgd, {{"momentum", momentum}, {"weight-decay", 0.1}}), dtype,
                    some_forms(), random_first);
      for (int64_t step = 1; step <= 20; ++step) do_step(turned, step), do_step(plain, step);
      for (size_t p = 0; p < plain.pass.weights.size(); ++p) {
        const std::vector<double> got = values_of(turned.pass.weights[p]), want = values_of(plain.pass.weights[p]);
        for (size_t i = 0; i < want.size(); ++i)
          ASSERT_NEAR(got[i], want[i], dtype == DType::f64 ? 1e-14 : 2e-6) << plain.state.infos[p].name << " " << i;
      }
    }
}

// One direction: what a step moves is of rank one, along the strongest direction of the gradient.
TEST(Galore, AStepStaysInTheStrongestDirections) {
  for (const ParameterForm& form :
       {ParameterForm{ParameterKind::matrix, 6, 4}, ParameterForm{ParameterKind::matrix, 4, 6}}) {
    RuleRun run(
        update_config(UpdateRule::galore_sgd, {{"momentum", 0}, {"projection-rank", 1}, {"projection-scale", 0.5}}),
        DType::f64, {{"w", form}}, [](const std::string&, int64_t) { return 0.0; });
    // 3·(a bᵀ) + 0.1·(c dᵀ), with a, c and b, d orthonormal: signs over rows and columns.
    const auto sign = [](int64_t i, int64_t period) { return i / period % 2 == 0 ? 0.5 : -0.5; };
    run.set_gradients([&](const std::string&, int64_t i) {
      const int64_t r = i / form.columns, c = i % form.columns;
      if (r >= 4 || c >= 4) return 0.0;
      return 3 * sign(r, 1) * sign(c, 1) + 0.1 * sign(r, 2) * sign(c, 2);
    });
    run.step(1, 1.0);
    for (int64_t i = 0; i < form.elements(); ++i) {
      const int64_t r = i / form.columns, c = i % form.columns;
      const double want = r >= 4 || c >= 4 ? 0.0 : -0.5 * 3 * sign(r, 1) * sign(c, 1);
      EXPECT_NEAR(value_at(run.pass.weights[0], i), want, 1e-14) << r << " " << c;
    }
  }
}

// The first step makes the bases; then a gradient that never changes is preconditioned to steps of the rate in its own basis.
TEST(Soap, TheFirstStepMovesNothingAndLongSidesHaveNoBasis) {
  RuleRun run(update_config(UpdateRule::soap, {{"basis-limit", 5}}), DType::f32, some_forms(), random_first);
  for (size_t p = 0; p < 4; ++p)  // wide (5, 12), tall (12, 5), a table (9, 7), a vector
    for (size_t slot = 2; slot < 6; ++slot)
      EXPECT_EQ(run.state.slots[slot][p].empty() ? 0 : run.state.slots[slot][p].count(),
                (p == 0 && slot % 2 == 0) || (p == 1 && slot % 2 == 1) ? 25 : 0)
          << p << " " << slot;
  const std::vector<double> before = values_of(run.pass.weights[0]);
  do_step(run, 1);
  EXPECT_EQ(values_of(run.pass.weights[0]), before);
  do_step(run, 2);
  EXPECT_NE(values_of(run.pass.weights[0]), before);
}

}  // namespace
}  // namespace tern
