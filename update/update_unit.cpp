#include "update/update_unit.h"

#include "base/threads.h"
#include "model/visit_weights.h"
#include "update/block_sums_impl.h"
#include "update/block_values.h"
#include "update/stored_states.h"

namespace tern {

static std::vector<size_t> parameters_of(const UpdatePass& pass, int unit) {
  std::vector<size_t> own;
  for (size_t i = 0; i < pass.state.infos.size(); ++i)
    if (pass.state.infos[i].unit == unit) own.push_back(i);
  return own;
}

void update_unit(const UpdatePass& pass, const UpdateNorm& norm, int unit, Arena& arena, Comm* replicas) {
  update_parameters(pass, norm, parameters_of(pass, unit), arena, replicas);
}

void update_parameters(const UpdatePass& pass, const UpdateNorm& norm, std::span<const size_t> parameters, Arena& arena,
                       Comm* replicas) {
  if (pass.stored) {
    for (const size_t p : parameters) update_stored(pass, norm, p, arena);
    return;
  }
  std::vector<UpdateSumValues> sums(parameters.size(), UpdateSumValues{});
  if (sums_over(pass, UpdateSums::Over::parameter))
    sums = rule_sums(pass, norm, BlockReaders::replicas, parameters, replicas);
  for (size_t i = 0; i < parameters.size(); ++i) {
    UpdateShard shard = shard_of(pass, norm, parameters[i]);
    const Tensor& whole = pass.gradients[parameters[i]];
    if (!shard.master.empty()) {
      if (const int64_t elements = temporary_elements(pass.config, shard.form); elements > 0)
        shard.temporary = arena.allocate(shard.master.dtype(), {elements}, MemoryClass::workspace);
      shard.sums = sums[i];
      functions_of(pass.config.rule).step(shard);
    }
    if (whole.count() > shard.gradient.count() || shard.master.empty()) whole.fill_zero();  // what others keep
  }
}

std::vector<int64_t> update_value_bytes(const UpdatePass& pass, std::span<const size_t> parameters, int replicas) {
  const int sums = sums_over(pass, UpdateSums::Over::parameter) ? num_sums(pass.config) : 0;
  return block_value_bytes(pass.state.shares, BlockReaders::replicas, parameters, sums, replicas);
}

int64_t update_thread_bytes(const ModelSpec& spec, const UpdateConfig& config, DType weights) {
  ThreadBytes all;
  const auto asked = functions_of(config.rule).thread_bytes;
  if (asked && weights != DType::f64)
    for (const ParameterInfo& info : trained_parameters(spec)) all = most(all, asked(config, form_of(spec, info)));
  return all.total(num_compute_threads());
}

}  // namespace tern
