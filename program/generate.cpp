#include "program/generate.h"

#include "base/error.h"

namespace tern {
namespace {

Placement placed(const ModelSpec& spec, std::span<const CostQuery> micro_batches, Recompute recompute,
                 const UpdateConfig& update) {
  TERN_CHECK(!micro_batches.empty(), "program: no micro-batches");
  const DType dtype = micro_batches[0].dtype;
  const TrainJob job{
      .dtype = dtype, .gradients = dtype == DType::f64 ? DType::f64 : DType::f32, .optimizer = update.rule};
  return on_one_device(spec, job, update, {&recompute, 1}, static_cast<int>(micro_batches.size()),
                       [micro_batches](int, int m) { return micro_batches[static_cast<size_t>(m)]; });
}

}  // namespace

Program training_program(const ModelSpec& spec, std::span<const CostQuery> micro_batches, Recompute recompute,
                         const UpdateConfig& update) {
  return lower(spec, placed(spec, micro_batches, recompute, update), 0);
}

Program forward_program(const ModelSpec& spec, std::span<const CostQuery> micro_batches) {
  return lower_forward(spec, placed(spec, micro_batches, Recompute::none, update_config(UpdateRule::adamw)));
}

}  // namespace tern
