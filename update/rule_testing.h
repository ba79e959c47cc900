#pragma once
// Tests only: parameters of given forms under an update rule, without a model around them.
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "model/visit_weights.h"
#include "update/norm.h"
#include "update/pass.h"
#include "update/update_unit.h"

namespace tern {

/// Every rule: with its defaults; with each option switched off whose being off saves a slot or a sum; and with small numbers of steps
/// and of directions.
inline std::vector<UpdateConfig> configs_of_every_rule() {
  std::vector<UpdateConfig> all;
  for (const UpdateRule rule : kUpdateRules) {
    all.push_back(update_config(rule));
    std::vector<std::string_view> switches = {row_of(rule).sums.unless_zero};
    for (const StateSlot& slot : row_of(rule).slots) switches.push_back(slot.unless_zero);
    for (const std::string_view name : switches)
      if (!name.empty()) all.push_back(update_config(rule, {{name, 0.0}}));
    UpdateConfig small = update_config(rule);
    for (const RuleOption& o : row_of(rule).options)
      if (o.counts && o.name != "basis-limit") small.set_option(o.name, 3);
    if (small.options != all.back().options) all.push_back(small);
  }
  return all;
}

inline void set_value(const Tensor& t, int64_t i, double x) {
  const auto at = static_cast<size_t>(i);
  switch (t.dtype()) {
    case DType::f64:
      t.span<double>()[at] = x;
      break;
    case DType::bf16:
      t.span<bf16>()[at] = to_bf16(static_cast<float>(x));
      break;
    default:
      t.span<float>()[at] = static_cast<float>(x);
  }
}
inline double value_at(const Tensor& t, int64_t i) {
  const auto at = static_cast<size_t>(i);
  if (t.dtype() == DType::f64) return t.span<double>()[at];
  if (t.dtype() == DType::bf16) return to_float(t.span<bf16>()[at]);
  return t.span<float>()[at];
}
inline std::vector<double> values_of(const Tensor& t) {
  std::vector<double> all;
  for (int64_t i = 0; i < t.count(); ++i) all.push_back(value_at(t, i));
  return all;
}

/// Parameters, their gradients and their state. Matrices and tables decay.
struct RuleRun {
  Arena arena, temporaries;
  UpdateConfig config;
  OptimizerState state;
  std::vector<Tensor> weights;
  UpdatePass pass;

  RuleRun(const UpdateConfig& c, DType dtype, const std::vector<std::pair<std::string, ParameterForm>>& parameters,
          const std::function<double(const std::string&, int64_t)>& first)
      : config(c), pass{.state = state, .config = config, .weights = {}, .gradients = {}} {
    config.clip = 0;
    for (const auto& [name, form] : parameters) {
      const bool vector = form.kind == ParameterKind::vector;
      const Shape shape = vector ? Shape{form.columns} : Shape{form.rows, form.columns};
      const Tensor weight = arena.allocate(dtype, shape, MemoryClass::weights);
      for (int64_t i = 0; i < weight.count(); ++i) set_value(weight, i, first(name, i));
      ParameterInfo info;
      info.name = name, info.shape = shape, info.unit = 0, info.decay = !vector;
      add_parameter(state, info, form, weight, config, arena);
      pass.weights.push_back(weight);
      pass.gradients.push_back(
          arena.zeros(dtype == DType::f64 ? DType::f64 : DType::f32, shape, MemoryClass::gradients));
    }
  }
  RuleRun(const RuleRun&) = delete;
  RuleRun& operator=(const RuleRun&) = delete;

  void set_gradients(const std::function<double(const std::string&, int64_t)>& gradient) {
    for (size_t p = 0; p < pass.gradients.size(); ++p)
      for (int64_t i = 0; i < pass.gradients[p].count(); ++i)
        set_value(pass.gradients[p], i, gradient(state.infos[p].name, i));
  }
  UpdateNorm step(int64_t number, const std::function<double(int64_t)>& rate_of) {
    begin_step(pass, number, rate_of);
    const UpdateNorm norm = gradient_norm(pass);
    update_unit(pass, norm, 0, temporaries);
    return norm;
  }
  UpdateNorm step(int64_t number, double rate) {
    return step(number, [rate](int64_t) { return rate; });
  }
};

/// Forms that show which way round a matrix is, with a table and a vector; sizes that no vector length divides.
inline std::vector<std::pair<std::string, ParameterForm>> some_forms() {
  return {{"wide", {ParameterKind::matrix, 5, 12}},
          {"tall", {ParameterKind::matrix, 12, 5}},
          {"table", {ParameterKind::table, 9, 7}},
          {"vector", {ParameterKind::vector, 1, 7}}};
}
inline double random_first(const std::string& name, int64_t i) {
  return 0.5 * random_normal({3, hash_name(name)}, static_cast<uint64_t>(i));
}
inline double random_gradient(const std::string& name, int64_t step, int64_t i) {
  return 0.3 * random_normal({4, hash_name(name) + static_cast<uint64_t>(step)}, static_cast<uint64_t>(i));
}

}  // namespace tern
