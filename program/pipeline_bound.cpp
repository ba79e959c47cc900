#include "program/pipeline_bound.h"

#include <algorithm>

#include "base/error.h"
#include "program/pipeline_order.h"

namespace tern {
namespace {

// Leads along the chain of virtual stages, c micro-batches. b is what a backward occupies: b + w where it is not split.
//   first_forward[s]   earliest start of the first forward
//   first_backward[s]  earliest start of the first backward
//   after_forward[s]   least time from the end of the last forward to the end of the step
//   after_backward[s]  least time from the end of the last backward to the end of the step
struct Leads {
  std::vector<int64_t> f, b, w, send_forward, send_backward;
  std::vector<int64_t> first_forward, first_backward, after_forward, after_backward;
};

// Micro-batches that a stage certainly forwards before its first backward (it has as many backwards after its last
// forward): 1 where the order does not say.
int certain_fill(const PipelineShape& shape, int stage) {
  return fills_first(shape.schedule) ? max_in_flight(shape, stage) : 1;
}

Leads leads_of(const PipelineShape& shape, const PipelineTimes& t) {
  const int stages = shape.num_virtual_stages();
  const bool split = splits_backward(shape.schedule);
  Leads l{t.forward, t.backward, t.weight, t.send_forward, t.send_backward, {}, {}, {}, {}};
  for (int s = 0; s < stages; ++s) {
    if (!split) l.b[s] += l.w[s];
    if (s + 1 < stages && device_of(shape, s) == device_of(shape, s + 1)) l.send_forward[s] = l.send_backward[s] = 0;
  }
  l.first_forward = l.first_backward = l.after_forward = l.after_backward = std::vector<int64_t>(stages, 0);
  for (int s = 0; s < stages; ++s) {
    const int64_t begin = t.begin[device_of(shape, s)];
    l.first_forward[s] = s == 0 ? begin : std::max(begin, l.first_forward[s - 1] + l.f[s - 1] + l.send_forward[s - 1]);
  }
  for (int s = 0; s < stages; ++s) {
    const int64_t own = t.tail[device_of(shape, s)] + (split ? l.w[s] : 0);
    l.after_backward[s] = s == 0 ? own : std::max(own, l.send_backward[s - 1] + l.b[s - 1] + l.after_backward[s - 1]);
  }
  for (int s = stages - 1; s >= 0; --s) {
    const bool last = s + 1 == stages;
    l.first_backward[s] =
        last ? l.first_forward[s] + l.f[s] : l.first_backward[s + 1] + l.b[s + 1] + l.send_backward[s];
    l.after_forward[s] = last ? l.b[s] + l.after_backward[s] : l.send_forward[s] + l.f[s + 1] + l.after_forward[s + 1];
    // The fill: `more` forwards of any stage or link on the way, before the one that ends it; the drain likewise.
    const int64_t more = certain_fill(shape, s) - 1;
    if (more == 0) continue;
    int64_t way_in = l.f[s], way_out = l.b[s];
    for (int j = s; j >= 0; --j) {
      l.first_backward[s] = std::max(l.first_backward[s], l.first_forward[j] + way_in + more * l.f[j]);
      l.after_forward[s] = std::max(l.after_forward[s], way_out + more * l.b[j] + l.after_backward[j]);
      if (j == 0) break;
      way_in += l.f[j - 1] + l.send_forward[j - 1];
      way_out += l.send_backward[j - 1] + l.b[j - 1];
      l.first_backward[s] =
          std::max(l.first_backward[s], l.first_forward[j - 1] + way_in + more * l.send_forward[j - 1]);
      l.after_forward[s] =
          std::max(l.after_forward[s], way_out + more * l.send_backward[j - 1] + l.after_backward[j - 1]);
    }
  }
  return l;
}

// Of the first n turns of interleaved (groups of P per chunk), how many belong to `chunk`.
int turns_of(int n, int chunk, int devices, int chunks) {
  const int round = devices * chunks;
  return n / round * devices + std::clamp(n % round - chunk * devices, 0, devices);
}

// Operations of a stage that certainly lie after its device's first backward, or before its last forward.
struct Certain {
  int64_t forwards_after, backwards_before, weights_before;
};
Certain certain(const PipelineShape& shape, int stage) {
  const int m = shape.num_micro, p = shape.num_devices, v = shape.chunks_per_device;
  const PipelineScheduleTraits& t = traits_of(shape.schedule);
  if (t.in_flight != InFlight::by_order) {
    const int rest = m - max_in_flight(shape, stage);
    const int kept = t.order_follows_times ? zero_bubble_caps(shape.schedule, p, stage).total : m;
    return {rest, rest, std::max(0, m - kept)};
  }
  if (t.chunks == ChunkRule::several) {
    const int fill = std::min(v * m, 2 * (p - stage % p - 1) + (v - 1) * p + 1), chunk = stage / p;
    return {m - turns_of(fill, chunk, p, v), turns_of(v * m - fill, v - 1 - chunk, p, v), 0};
  }
  return {0, 0, 0};
}

int64_t busiest_device(const PipelineShape& shape, const PipelineTimes& t, const Leads& l) {
  const int stages = shape.num_virtual_stages();
  const int64_t m = shape.num_micro;
  const bool split = splits_backward(shape.schedule);
  int64_t bound = 0;
  for (int d = 0; d < shape.num_devices; ++d) {
    int low = -1, top = -1;
    int64_t both = 0, weights = 0, from_backward = 0, to_forward = 0;
    for (int s = 0; s < stages; ++s) {
      if (device_of(shape, s) != d) continue;
      if (low < 0) low = s;
      top = s;
      const Certain c = certain(shape, s);
      both += m * (l.f[s] + l.b[s]);
      if (split) weights += m * l.w[s];
      from_backward += m * l.b[s] + c.forwards_after * l.f[s];
      to_forward += m * l.f[s] + c.backwards_before * l.b[s] + c.weights_before * l.w[s];
    }
    bound = std::max({bound, l.first_forward[low] + both + l.after_backward[low],
                      l.first_forward[low] + both + weights + t.tail[d],
                      l.first_backward[top] + from_backward + l.after_backward[low],
                      l.first_backward[top] + from_backward + weights + t.tail[d],
                      l.first_forward[low] + to_forward + l.after_forward[top]});
  }
  return bound;
}

int64_t busiest_link(const PipelineShape& shape, const Leads& l) {
  int64_t bound = 0;
  for (int s = 0; s + 1 < shape.num_virtual_stages(); ++s) {
    const int64_t ahead = l.first_forward[s] + l.f[s] + shape.num_micro * l.send_forward[s];
    const int64_t back = l.first_backward[s + 1] + l.b[s + 1] + shape.num_micro * l.send_backward[s];
    bound = std::max({bound, ahead + l.f[s + 1] + l.after_forward[s + 1], back + l.b[s] + l.after_backward[s]});
  }
  return bound;
}

// Stages i … e of 1F1B hold d_i and d_e micro-batches. From a backward at i to the next forward there, over e and back
// to i is one turn, and the backward it ends with belongs to the micro-batch d_i − d_e + 1 further on. Turns from the
// first backward until no forward is left, then the backwards that remain at i; or the last turn stays at e, where
// forwards and backwards take turns to the end; or from the first forwards on, to the last one.
int64_t longest_cycles(const PipelineShape& shape, const Leads& l) {
  const int stages = shape.num_virtual_stages();
  const int64_t m = shape.num_micro;
  int64_t bound = 0;
  for (int i = 0; i < stages; ++i) {
    const int64_t hold = max_in_flight(shape, i);
    if (hold == m) continue;
    int64_t turn = 0, way_back = 0;  // way_back: from the end of the backward at e to its end at i
    for (int e = i; e < stages; ++e) {
      turn += l.f[e] + l.b[e];
      if (e > i) {
        turn += l.send_forward[e - 1] + l.send_backward[e - 1];
        way_back += l.send_backward[e - 1] + l.b[e - 1];
      }
      const int64_t hold_e = max_in_flight(shape, e), step = hold - hold_e + 1;
      const int64_t turns = (m - hold + step - 1) / step, from_backward = l.first_backward[i] + l.b[i] + turns * turn;
      const int64_t before = (m - hold_e) / step, first = m - 1 - step * before;
      bound = std::max({bound, from_backward + (m - 1 - step * turns) * l.b[i] + l.after_backward[i],
                        from_backward - way_back + (m - hold_e - step * turns) * (l.f[e] + l.b[e]) +
                            (hold_e - 1) * l.b[e] + l.after_backward[e],
                        l.first_forward[i] + first * l.f[i] + before * turn + l.f[i] + l.after_forward[i]});
    }
  }
  return bound;
}

// Zero bubble keeps the cap d_i of micro-batches in flight, whatever the order: B_k(i) ends before F_{k+d_i}(i) begins,
// and from there to B_{k+d_i}(i) it is the whole way to the last stage and back.
int64_t longest_round_trips(const PipelineShape& shape, const Leads& l) {
  const int64_t m = shape.num_micro;
  int64_t bound = 0, trip = 0;
  for (int i = shape.num_virtual_stages() - 1; i >= 0; --i) {
    trip += l.f[i] + l.b[i];
    const int64_t hold = max_in_flight(shape, i), trips = (m - 1) / hold;
    bound = std::max(
        bound, l.first_backward[i] + l.b[i] + trips * trip + (m - 1 - hold * trips) * l.b[i] + l.after_backward[i]);
    if (i > 0) trip += l.send_forward[i - 1] + l.send_backward[i - 1];
  }
  return bound;
}

}  // namespace

int max_in_flight(const PipelineShape& shape, int stage) {
  TERN_CHECK(traits_of(shape.schedule).in_flight != InFlight::by_order, "max_in_flight: {} has no rule",
             name_of(shape.schedule));
  return static_cast<int>(most_in_flight(shape.schedule, stage, shape.num_devices, shape.num_micro));
}

int64_t pipeline_lower_bound(const PipelineShape& shape, const PipelineTimes& times) {
  const Leads l = leads_of(shape, times);
  int64_t bound = std::max(busiest_device(shape, times, l), busiest_link(shape, l));
  const PipelineScheduleTraits& t = traits_of(shape.schedule);
  if (t.in_flight == InFlight::by_order) return bound;
  if (t.steady) bound = std::max(bound, longest_cycles(shape, l));
  if (t.order_follows_times) bound = std::max(bound, longest_round_trips(shape, l));
  return bound;
}

}  // namespace tern
