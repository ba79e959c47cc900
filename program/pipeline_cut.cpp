#include "program/pipeline_cut.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "program/pipeline_impl.h"

namespace tern {
namespace {

constexpr int32_t kNone = -1;

// Why a step began when it did, and why its transfer did.
struct Cause {
  int32_t device_before = kNone, sender = kNone;  // the later of the two; both kNone: `begin`
  int32_t link_before = kNone;                    // the transfer before on the link; kNone: the step's own end
};

struct Walk {
  const PreparedPipeline& p;
  const PipelineTimes& t;
  int stages = p.shape.num_virtual_stages();
  bool split = splits_backward(p.shape.schedule);
  std::vector<Cause> causes = std::vector<Cause>(p.steps.size());
  std::vector<int64_t> clock = t.begin;
  std::vector<int32_t> last_step = std::vector<int32_t>(p.shape.num_devices, kNone);

  int64_t cost(int32_t c) const {
    const int s = c % stages;
    if (c < stages) return t.forward[s];
    if (c >= 2 * stages) return t.weight[s];
    return t.backward[s] + (split ? 0 : t.weight[s]);
  }
  bool sends(const PreparedPipeline::Step& s) const { return s.out != kNobody; }
  int64_t send(int32_t x) const { return x < stages - 1 ? t.send_forward[x] : t.send_backward[x - (stages - 1)]; }

  void forward() {
    std::vector<int64_t> link(p.num_links, 0), arrival(p.num_arrivals, 0);
    std::vector<int32_t> last_on_link(p.num_links, kNone), sender(p.num_arrivals, kNone);
    for (size_t k = 0; k < p.steps.size(); ++k) {
      const PreparedPipeline::Step& s = p.steps[k];
      Cause& cause = causes[k];
      int64_t start = clock[s.device];
      cause.device_before = last_step[s.device];
      if (s.wait != kAtOnce && arrival[s.wait] > start) {
        start = arrival[s.wait];
        cause.device_before = kNone;
        cause.sender = sender[s.wait];
      }
      const int64_t end = clock[s.device] = start + cost(s.cost);
      last_step[s.device] = static_cast<int32_t>(k);
      if (!sends(s)) continue;
      if (link[s.link] > end) cause.link_before = last_on_link[s.link];
      arrival[s.out] = link[s.link] = std::max(end, link[s.link]) + send(s.send);
      last_on_link[s.link] = sender[s.out] = static_cast<int32_t>(k);
    }
  }

  PipelineCut back() const {
    const std::vector<int64_t> none(stages, 0), idle(p.shape.num_devices, 0), links(stages - 1, 0);
    PipelineCut cut{none, none, none, links, links, idle, idle};
    int last = 0;
    for (int d = 1; d < p.shape.num_devices; ++d)
      if (clock[d] + t.tail[d] > clock[last] + t.tail[last]) last = d;
    ++cut.tail[last];
    for (int32_t k = last_step[last]; k != kNone;) {
      const PreparedPipeline::Step& s = p.steps[k];
      const int stage = s.cost % stages;
      if (s.cost < stages) {
        ++cut.forward[stage];
      } else if (s.cost >= 2 * stages) {
        ++cut.weight[stage];
      } else {
        ++cut.backward[stage];
        if (!split) ++cut.weight[stage];
      }
      const Cause& cause = causes[k];
      if (cause.sender == kNone && cause.device_before == kNone) ++cut.begin[s.device];
      k = cause.device_before;
      for (int32_t on = cause.sender; on != kNone; on = causes[on].link_before) {
        const int32_t x = p.steps[on].send;
        ++(x < stages - 1 ? cut.send_forward[x] : cut.send_backward[x - (stages - 1)]);
        k = on;
      }
    }
    return cut;
  }
};

}  // namespace

PipelineCut pipeline_cut(const PreparedPipeline& p, const PipelineTimes& times) {
  const size_t stages = p.shape.num_virtual_stages(), devices = p.shape.num_devices;
  TERN_CHECK(times.forward.size() == stages && times.backward.size() == stages && times.weight.size() == stages &&
                 times.send_forward.size() + 1 == stages && times.send_backward.size() + 1 == stages &&
                 times.begin.size() == devices && times.tail.size() == devices,
             "pipeline: times that are not of {} stages on {} devices", stages, devices);
  Walk walk{p, times};
  walk.forward();
  return walk.back();
}

int64_t value(const PipelineCut& c, const PipelineTimes& t) {
  const auto dot = [](const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    TERN_CHECK(a.size() == b.size(), "pipeline: a cut of {} for times of {}", a.size(), b.size());
    return std::inner_product(a.begin(), a.end(), b.begin(), int64_t{0});
  };
  return dot(c.forward, t.forward) + dot(c.backward, t.backward) + dot(c.weight, t.weight) +
         dot(c.send_forward, t.send_forward) + dot(c.send_backward, t.send_backward) + dot(c.begin, t.begin) +
         dot(c.tail, t.tail);
}

}  // namespace tern
