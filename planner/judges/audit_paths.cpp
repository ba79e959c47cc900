#include "planner/judges/audit_paths.h"

#include <algorithm>
#include <cstdint>

namespace tern {
namespace {

void mix(std::vector<double>& a, const std::vector<double>& b, double share) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += share * (b[i] - a[i]);
}
template <class Numbers>
void mix_all(Numbers& a, const Numbers& b, double share) {
  mix(a.forward, b.forward, share), mix(a.gradient, b.gradient, share), mix(a.weight, b.weight, share);
  mix(a.sync, b.sync, share), mix(a.over, b.over, share), mix(a.back, b.back, share);
  mix(a.begin, b.begin, share), mix(a.update, b.update, share);
}

}  // namespace

void mix(Passes& a, const Passes& b, double share) { mix_all(a, b, share); }
void mix(Amounts& a, const Amounts& b, double share) { mix_all(a, b, share); }

Passes no_passes(size_t stages, size_t devices) {
  const std::vector<double> s(stages, 0), l(stages - 1, 0), n(devices, 0);
  return {s, s, s, s, l, l, n, n};
}

namespace {

struct Event {
  int32_t before = -1, step = -1;  // the event before it; the operation, or the transfer of it
  bool transfer = false;
};
struct PipelineWalk {
  std::vector<Event> events;
  std::vector<int32_t> last;  // of each device
  std::vector<double> clock;
};

// One run of the pipeline in the order of its steps.
PipelineWalk walk_through(const PipelineShape& shape, const PreparedPipeline& ready, const Amounts& a) {
  const auto stages = static_cast<size_t>(shape.num_virtual_stages()), devices = a.begin.size();
  PipelineWalk w{{}, std::vector<int32_t>(devices, -1), a.begin};
  std::vector<double> link_free(static_cast<size_t>(ready.num_links), 0);
  std::vector<double> arrived(static_cast<size_t>(ready.num_arrivals), 0);
  std::vector<int32_t> on_link(static_cast<size_t>(ready.num_links), -1);
  std::vector<int32_t> arrival(static_cast<size_t>(ready.num_arrivals), -1);
  const auto time_of = [&](const PreparedPipeline::Step& x) {
    const size_t phase = static_cast<size_t>(x.cost) / stages, s = static_cast<size_t>(x.cost) % stages;
    return phase == 0 ? a.forward[s] : phase == 1 ? a.gradient[s] : a.weight[s];
  };
  const auto send_of = [&](const PreparedPipeline::Step& x) {
    const auto i = static_cast<size_t>(x.send);
    return i + 1 < stages ? a.over[i] : a.back[i - (stages - 1)];
  };
  for (size_t i = 0; i < ready.steps.size(); ++i) {
    const PreparedPipeline::Step& x = ready.steps[i];
    const auto device = static_cast<size_t>(x.device);
    const bool waits = x.wait >= 0 && arrived[static_cast<size_t>(x.wait)] > w.clock[device];
    w.events.push_back({waits ? arrival[static_cast<size_t>(x.wait)] : w.last[device], static_cast<int32_t>(i), false});
    w.clock[device] = (waits ? arrived[static_cast<size_t>(x.wait)] : w.clock[device]) + time_of(x);
    w.last[device] = static_cast<int32_t>(w.events.size()) - 1;
    if (x.send >= 2 * (shape.num_virtual_stages() - 1)) continue;  // sends nothing
    const auto out = static_cast<size_t>(x.out);
    const auto l = static_cast<size_t>(x.link);
    const bool queues = link_free[l] > w.clock[device];
    w.events.push_back({queues ? on_link[l] : w.last[device], static_cast<int32_t>(i), true});
    link_free[l] = (queues ? link_free[l] : w.clock[device]) + send_of(x);
    on_link[l] = static_cast<int32_t>(w.events.size()) - 1;
    arrived[out] = link_free[l], arrival[out] = on_link[l];
  }
  return w;
}

}  // namespace

Passes longest_path(const PipelineShape& shape, const PreparedPipeline& ready, const Amounts& a) {
  const auto stages = static_cast<size_t>(shape.num_virtual_stages()), devices = a.begin.size();
  const auto [events, last, clock] = walk_through(shape, ready, a);
  size_t end = 0;
  std::vector<double> backlog(devices, 0);
  for (size_t s = 0; s < stages; ++s) backlog[static_cast<size_t>(device_of(shape, static_cast<int>(s)))] += a.sync[s];
  const auto tail = [&](size_t i) { return a.update[i] + std::max(0.0, backlog[i]); };
  for (size_t i = 1; i < devices; ++i)
    if (clock[i] + tail(i) > clock[end] + tail(end)) end = i;
  Passes p = no_passes(stages, devices);
  p.update[end] = 1;
  for (size_t s = 0; s < stages; ++s)
    if (device_of(shape, static_cast<int>(s)) == static_cast<int>(end) && backlog[end] > 0) p.sync[s] = 1;
  size_t device = end;
  for (int32_t e = last[end]; e >= 0; e = events[static_cast<size_t>(e)].before) {
    const Event& event = events[static_cast<size_t>(e)];
    const PreparedPipeline::Step& x = ready.steps[static_cast<size_t>(event.step)];
    if (event.transfer) {
      const auto i = static_cast<size_t>(x.send);
      ++(i + 1 < stages ? p.over[i] : p.back[i - (stages - 1)]);
      continue;
    }
    const size_t phase = static_cast<size_t>(x.cost) / stages, s = static_cast<size_t>(x.cost) % stages;
    ++(phase == 0 ? p.forward[s] : phase == 1 ? p.gradient[s] : p.weight[s]);
    device = static_cast<size_t>(x.device);
  }
  p.begin[device] = 1;
  return p;
}

}  // namespace tern
