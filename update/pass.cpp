#include "update/pass.h"

#include <algorithm>

#include "base/error.h"
#include "model/visit_weights.h"

namespace tern {

UpdatePass make_update_pass(const ModelSpec& spec, OptimizerState& state, const UpdateConfig& config,
                            ModelWeights& weights, ModelWeights& gradients) {
  UpdatePass pass{.state = state, .config = config, .weights = {}, .gradients = {}};
  for (const Tensor* t : trained_tensors(spec, weights)) pass.weights.push_back(*t);
  for (const Tensor* t : trained_tensors(spec, gradients)) pass.gradients.push_back(*t);
  TERN_CHECK(pass.weights.size() == state.infos.size(), "update: {} weights, a state of {}", pass.weights.size(),
             state.infos.size());
  return pass;
}

DType weight_type(const UpdatePass& pass) {
  if (pass.weight_dtype) return *pass.weight_dtype;
  const auto own = std::ranges::find_if(pass.weights, [](const Tensor& t) { return !t.empty(); });
  TERN_CHECK(own != pass.weights.end(), "update: a rank without weights");
  return own->dtype();
}

void add_gradient_parts(UpdatePass& pass, DType wide, Arena& arena) {
  const OptimizerState& state = pass.state;
  for (size_t p = 0; p < pass.gradients.size(); ++p) {
    const int64_t mine = state.shares.mine(p, state.forms[p].elements()).size();
    if (pass.gradients[p].empty() && mine > 0) pass.gradients[p] = arena.zeros(wide, {mine}, MemoryClass::gradients);
  }
}

UpdateShard shard_of(const UpdatePass& pass, const UpdateNorm& norm, size_t parameter) {
  const OptimizerState& state = pass.state;
  const double rate = pass.highest_rate, all = pass.squared_rates;
  const auto own = [&](const Tensor& t) {
    return own_part(state.shares, parameter, state.forms[parameter].elements(), t);
  };
  const double factor = pass.rate_factors.empty() ? 1 : pass.rate_factors[parameter];
  UpdateShard shard{.config = pass.config,
                    .form = state.forms[parameter],
                    .decays = state.infos[parameter].decay,
                    .learning_rate = factor * pass.learning_rate,
                    .step = pass.step,
                    .average_weight = all > 0 ? rate * rate / all : 0,
                    .norm = norm,
                    .gradient = own(pass.gradients[parameter]),
                    .master = state.master[parameter]};
  const Tensor& weight = pass.weights[parameter];
  if (has_own_masters(pass.config, weight.dtype())) shard.compute = own(weight);
  for (const std::vector<Tensor>& slot : state.slots) shard.slots.push_back(slot[parameter]);
  return shard;
}

void begin_step(UpdatePass& pass, int64_t number, const std::function<double(int64_t)>& rate_of) {
  if (number != pass.step + 1) pass.step = 0, pass.highest_rate = pass.squared_rates = 0;
  while (pass.step < number) {
    pass.learning_rate = rate_of(++pass.step);
    pass.highest_rate = std::max(pass.highest_rate, pass.learning_rate);
    pass.squared_rates += pass.highest_rate * pass.highest_rate;
  }
}

void put_weights_at(const UpdatePass& pass, WeightPoint point) {
  if (!row_of(pass.config.rule).computes_elsewhere) return;
  for (size_t i = 0; i < pass.state.infos.size(); ++i) {
    const UpdateShard shard = shard_of(pass, {}, i);
    if (shard.master.empty()) continue;
    if (point == WeightPoint::computing)
      functions_of(pass.config.rule).place(shard);
    else
      round_master(shard.master, shard.compute);
  }
}

}  // namespace tern
