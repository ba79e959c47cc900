// One step of each update rule on f32 matrices, beside a plain loop that reads and writes the same tensors (a step clears the
// gradient that it has read), in turns.
//
// ROUNDS steps count, behind one that touches all pages; 0: that one counts. Beside PyTorch: step_rate.py.
//
//   step_rate [ROWS COLUMNS [ROUNDS [COUNT [RULE]]]]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "kernels/cpu/matmul.h"
#include "update/norm.h"
#include "update/rule_testing.h"
#include "update/update_unit.h"

namespace tern {
namespace {

double seconds_of(const std::function<void()>& work) {
  const int64_t begin = real_clock().now_ns();
  work();
  return static_cast<double>(real_clock().now_ns() - begin) * 1e-9;
}
double median(std::vector<double> x) {
  std::ranges::sort(x);
  return x[x.size() / 2];
}

void plain_loop(const std::vector<std::span<float>>& streams) {
  const auto count = static_cast<int64_t>(streams[0].size());
#pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < count; block += 4096)
    for (const std::span<float> s : streams)
      for (int64_t i = block; i < std::min(block + 4096, static_cast<int64_t>(s.size())); ++i)
        s[static_cast<size_t>(i)] = s[static_cast<size_t>(i)] * 0.999f + 1e-9f;
}

// FLOPs a second of tern's own f32 product (rows, side) · (side, side).
double product_flops_per_s(int64_t rows, int64_t side) {
  std::vector<float> x(static_cast<size_t>(rows * side), 0.5f), w(static_cast<size_t>(side * side), 0.25f), y(x.size());
  const auto once = [&] { multiply_nn<float>(x, w, rows, side, side, false, y); };
  once();
  return 2.0 * static_cast<double>(rows * side * side) / std::min(seconds_of(once), seconds_of(once));
}

void measure(UpdateRule rule, const ParameterForm& form, int rounds, int64_t count) {
  std::vector<std::pair<std::string, ParameterForm>> matrices;
  for (int64_t i = 0; i < count; ++i) matrices.emplace_back(fmt::format("w{}", i), form);
  RuleRun run(update_config(rule), DType::f32, matrices,
              [](const std::string&, int64_t i) { return 0.01 * static_cast<double>(i % 97 - 48); });
  const auto fill = [&] {
    for (const Tensor& gradient : run.pass.gradients) {
      const std::span<float> g = gradient.span<float>();
#pragma omp parallel for
      for (size_t i = 0; i < g.size(); ++i) g[i] = 0.001f * static_cast<float>(static_cast<int>(i * 37 % 101) - 50);
    }
  };
  std::vector<std::vector<std::span<float>>> streams;  // of each matrix
  for (size_t p = 0; p < matrices.size(); ++p) {
    streams.push_back({run.pass.gradients[p].span<float>(), run.state.master[p].span<float>()});
    if (row_of(rule).computes_elsewhere) streams.back().push_back(run.pass.weights[p].span<float>());
    for (const auto& slot : run.state.slots)
      if (!slot[p].empty() && slot[p].dtype() == DType::f32) streams.back().push_back(slot[p].span<float>());
  }
  std::vector<double> own, plain;
  Arena temporaries;
  for (int round = 0; round <= rounds; ++round) {
    fill();
    begin_step(run.pass, round + 1, [](int64_t) { return 1e-3; });
    const UpdateNorm norm = gradient_norm(run.pass);
    const double step = seconds_of([&] { update_unit(run.pass, norm, 0, temporaries); });
    const double loop = seconds_of([&] {
      for (const auto& of_one : streams) plain_loop(of_one);
    });
    if (round > 0 || rounds == 0) own.push_back(step), plain.push_back(loop);
  }
  const UpdateCost cost = update_cost(run.config, DType::f32, {CountedForm{form, count}});
  fmt::print("{:<14} {:8.2f} ms  {:6.1f} GB/s  plain loop {:8.2f} ms  {:4.0f} % of its rate", name_of(rule),
             1e3 * median(own), 1e-9 * static_cast<double>(cost.bytes_moved) / median(own), 1e3 * median(plain),
             100 * median(plain) / median(own));
  if (cost.flops > 1000 * count * form.elements())
    fmt::print("  {:.0f} % of a product's rate",
               100 * static_cast<double>(cost.flops) / median(own) /
                   product_flops_per_s(std::max(form.rows, form.columns), std::min(form.rows, form.columns)));
  fmt::print("\n");
}

}  // namespace
}  // namespace tern

int main(int count, char** words) {
  const auto number = [&](int i, int64_t fallback) { return count > i ? std::atoll(words[i]) : fallback; };
  const tern::ParameterForm form{tern::ParameterKind::matrix, number(1, 2048), number(2, 2048)};
  const std::string_view wanted = count > 5 ? words[5] : "";
  for (const tern::UpdateRule rule : tern::kUpdateRules)
    if (wanted.empty() || tern::name_of(rule) == wanted)
      tern::measure(rule, form, static_cast<int>(number(3, 5)), number(4, 1));
}
