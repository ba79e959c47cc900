#include "calibrate/ready_pipelines.h"

#include "base/error.h"

namespace tern {

std::shared_ptr<ReadyPipelines::Ready> ReadyPipelines::of(const PipelineShape& shape, const PipelineTimes& times,
                                                          const std::string& where) {
  std::shared_ptr<Ready>& ready = ready_[{shape.schedule, shape.num_devices, shape.chunks_per_device, shape.num_micro}];
  if (ready) return ready;
  const int64_t more = int64_t{3} * shape.num_virtual_stages() * shape.num_micro;
  if (operations_ + more > most_)
    throw Error(
        ErrorKind::bad_file,
        "{}: with the rows before it, pipelines of {} operations, a table may have {}; price such rows in tables "
        "of their own",
        where, operations_ + more, most_);
  operations_ += more;
  ready = std::make_shared<Ready>();
  ready->prepared = prepare_pipeline(shape, pipeline_order(shape, times));
  return ready;
}

}  // namespace tern
