#include "program/pipeline_order.h"

#include <array>

#include "base/error.h"
#include "plan/legality.h"

namespace tern {
namespace {

void check_shape(const PipelineShape& shape) {
  if (shape.num_devices < 1 || shape.chunks_per_device < 1 || shape.num_micro < 1)
    throw Error(
        ErrorKind::usage,
        "pipeline: {} stages, {} chunks on each, {} micro-batches; each is at least 1: ask for one of each or more",
        shape.num_devices, shape.chunks_per_device, shape.num_micro);
  if (const std::string why =
          why_illegal_schedule(shape.schedule, shape.num_devices, shape.chunks_per_device, shape.num_micro);
      !why.empty())
    throw Error(ErrorKind::usage, "pipeline: {}", why);
}

}  // namespace

int device_of(const PipelineShape& shape, int stage) {
  if (is_v_shaped(shape.schedule)) return stage < shape.num_devices ? stage : 2 * shape.num_devices - 1 - stage;
  return stage % shape.num_devices;
}

PipelineOrder pipeline_order(const PipelineShape& shape, const PipelineTimes& times) {
  check_shape(shape);
#define TERN_PIPELINE_SCHEDULE(value, ...) value##_order,
  static constexpr std::array generators{
#include "spec/pipeline_schedules.def"
  };
#undef TERN_PIPELINE_SCHEDULE
  return generators[static_cast<size_t>(shape.schedule)](shape, times);
}

}  // namespace tern
