#include "program/pipeline_run.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "program/pipeline_impl.h"

namespace tern {
namespace {

// The state of a run: clocks of devices and links, arrivals. A step reads and writes nothing else.
struct Clocks {
  const PreparedPipeline& p;
  PipelineScratch& scratch;
  PipelineRun& result;

  void run(size_t from, size_t to) const {
    const int64_t *cost = scratch.cost.data(), *send = scratch.send.data();
    int64_t *clock = scratch.state.data(), *link = clock + p.shape.num_devices, *arrival = link + p.num_links;
    int64_t* begin = result.begin.data();
    for (const PreparedPipeline::Step *s = p.steps.data() + from, *last = p.steps.data() + to; s != last; ++s) {
      const int64_t start = std::max(clock[s->device], arrival[s->wait]), end = start + cost[s->cost];
      begin[s->device] = std::min(begin[s->device], start);
      clock[s->device] = end;
      arrival[s->out] = link[s->link] = std::max(end, link[s->link]) + send[s->send];
    }
  }

  // If all that a round touches is as in the snapshot, later by one and the same time: that time, else −1.
  int64_t shift() const {
    const int64_t by = scratch.state[p.touched[0]] - scratch.snapshot[0];
    for (size_t i = 1; i < p.touched.size(); ++i)
      if (scratch.state[p.touched[i]] - scratch.snapshot[i] != by) return -1;
    return by;
  }
  void take_snapshot() const {
    scratch.snapshot.resize(p.touched.size());
    for (size_t i = 0; i < p.touched.size(); ++i) scratch.snapshot[i] = scratch.state[p.touched[i]];
  }

  // Equal rounds. Steps only add and take maxima of what the round touches (and of the arrival that is always there, 0,
  // which no clock lies below); so once a round ends as one before it did, only later by `by`, all that follow repeat
  // what lay between, later again: those are skipped, to the bit. The snapshot moves on at powers of two (Brent).
  void run_rounds() const {
    scratch.skipped = 0;
    int64_t left = p.rounds, taken = 0;
    for (int64_t round = 0; left > 0; ++round) {
      if (std::has_single_bit(static_cast<uint64_t>(round))) {
        take_snapshot();
        taken = round;
      }
      run(p.first_round, p.first_round + p.round_length);
      --left;
      const int64_t by = round > 0 && left > 0 ? shift() : -1;
      if (by < 0) continue;
      const int64_t apart = round + 1 - taken, jumps = left / apart;
      for (const int32_t at : p.touched) scratch.state[at] += jumps * by;
      left -= jumps * apart;
      scratch.skipped += jumps * apart * static_cast<int64_t>(p.round_length);
    }
  }
};

}  // namespace

void run_pipeline(const PreparedPipeline& p, const PipelineTimes& t, PipelineScratch& scratch, PipelineRun& run) {
  const size_t stages = p.shape.num_virtual_stages(), devices = p.shape.num_devices;
  TERN_CHECK(t.forward.size() == stages && t.backward.size() == stages && t.weight.size() == stages &&
                 t.send_forward.size() + 1 == stages && t.send_backward.size() + 1 == stages &&
                 t.begin.size() == devices && t.tail.size() == devices,
             "pipeline: times that are not of {} stages on {} devices", stages, devices);
  scratch.cost.resize(3 * stages);
  const bool split = splits_backward(p.shape.schedule);
  for (size_t s = 0; s < stages; ++s) {
    scratch.cost[s] = t.forward[s];
    scratch.cost[stages + s] = split ? t.backward[s] : t.backward[s] + t.weight[s];
    scratch.cost[2 * stages + s] = t.weight[s];
  }
  scratch.send.assign(t.send_forward.begin(), t.send_forward.end());
  scratch.send.insert(scratch.send.end(), t.send_backward.begin(), t.send_backward.end());
  scratch.send.push_back(0);
  scratch.state.assign(devices + p.num_links + p.num_arrivals, 0);
  std::copy(t.begin.begin(), t.begin.end(), scratch.state.begin());
  run.begin.assign(devices, INT64_MAX);
  run.busy.assign(devices, 0);
  for (size_t s = 0; s < stages; ++s)
    run.busy[device_of(p.shape, static_cast<int>(s))] +=
        p.shape.num_micro * (t.forward[s] + t.backward[s] + t.weight[s]);

  const Clocks clocks{p, scratch, run};
  const size_t after_rounds = p.first_round + p.rounds * p.round_length;
  clocks.run(0, p.first_round);
  clocks.run_rounds();
  clocks.run(after_rounds, p.steps.size());
  run.end.assign(scratch.state.begin(), scratch.state.begin() + static_cast<int64_t>(devices));
  run.makespan = 0;
  for (size_t d = 0; d < devices; ++d) run.makespan = std::max(run.makespan, run.end[d] + t.tail[d]);
}

PipelineRun run_pipeline(const PipelineShape& shape, const PipelineOrder& order, const PipelineTimes& times) {
  PipelineScratch scratch;
  PipelineRun run;
  run_pipeline(prepare_pipeline(shape, order), times, scratch, run);
  return run;
}

}  // namespace tern
