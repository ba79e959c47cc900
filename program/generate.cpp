#include "program/generate.h"

#include "base/error.h"
#include "base/wide_type.h"
#include "spec/recompute.h"

namespace tern {

Placement placement_of(const ModelSpec& spec, std::span<const CostQuery> micro_batches, Recompute recompute,
                       const UpdateConfig& update) {
  TERN_CHECK(!micro_batches.empty(), "program: no micro-batches");
  const DType dtype = micro_batches[0].dtype;
  const TrainJob job{
      .batch = std::ssize(micro_batches), .dtype = dtype, .gradients = wide_type(dtype), .optimizer = update.rule};
  Placement p = placement_of(spec, plan_on_one_device(spec, job, {&recompute, 1}, 1), {.update = update});
  p.query = [sizes = std::vector(micro_batches.begin(), micro_batches.end())](int, int m) {
    return sizes[static_cast<size_t>(m)];
  };
  return p;
}

Program training_program(const ModelSpec& spec, std::span<const CostQuery> micro_batches, Recompute recompute,
                         const UpdateConfig& update) {
  return lower(spec, placement_of(spec, micro_batches, recompute, update), 0);
}

Program forward_program(const ModelSpec& spec, std::span<const CostQuery> micro_batches) {
  return lower_forward(spec, placement_of(spec, micro_batches, Recompute::none, update_config(UpdateRule::adamw)));
}

}  // namespace tern
