#include "program/pipeline_timeline.h"

#include <algorithm>

#include "program/pipeline_run.h"

namespace tern {

std::vector<std::vector<TimedOp>> pipeline_timeline(const PipelineShape& shape, const PipelineTimes& t) {
  const PreparedPipeline p = prepare_pipeline(shape, pipeline_order(shape, t));
  const int stages = shape.num_virtual_stages();
  const bool split = splits_backward(shape.schedule);
  std::vector<int64_t> send(t.send_forward.begin(), t.send_forward.end());
  send.insert(send.end(), t.send_backward.begin(), t.send_backward.end());
  send.push_back(0);
  std::vector<int64_t> clock(t.begin.begin(), t.begin.end()), link(static_cast<size_t>(p.num_links), 0);
  std::vector<int64_t> arrival(static_cast<size_t>(p.num_arrivals), 0);
  std::vector<int> seen(static_cast<size_t>(3 * stages), 0);  // micro-batches come in order
  std::vector<std::vector<TimedOp>> out(static_cast<size_t>(shape.num_devices));
  for (const PreparedPipeline::Step& s : p.steps) {
    const auto device = static_cast<size_t>(s.device), at = static_cast<size_t>(s.cost);
    const Phase phase = static_cast<Phase>(s.cost / stages);
    const auto stage = static_cast<size_t>(s.cost % stages);
    const int64_t cost = phase == Phase::forward  ? t.forward[stage]
                         : phase == Phase::weight ? t.weight[stage]
                                                  : t.backward[stage] + (split ? 0 : t.weight[stage]);
    const int64_t begin = std::max(clock[device], arrival[static_cast<size_t>(s.wait)]), end = begin + cost;
    clock[device] = end;
    int64_t& free = link[static_cast<size_t>(s.link)];
    arrival[static_cast<size_t>(s.out)] = free = std::max(end, free) + send[static_cast<size_t>(s.send)];
    out[device].push_back({{phase, static_cast<int>(stage), seen[at]++}, begin, end});
  }
  return out;
}

}  // namespace tern
