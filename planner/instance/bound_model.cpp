#include <algorithm>

#include "planner/instance/bound_model_impl.h"

namespace tern {

int64_t mean_share(const Chain& c, int stage, const StageCost& x, const LinkCost& link) {
  int64_t u = c.micro * x.work;
  if (const int64_t behind = c.devices - 1 - stage; behind > 0)
    u += behind * (x.forward + link.forward + (c.backwards_end ? x.backward + link.backward : 0));
  return u;
}

int64_t most_share(const Chain& c, const StageCost& x) {
  switch (c.kind) {
    case BoundKind::one_f_one_b:
      return x.rest;
    case BoundKind::gpipe:
    case BoundKind::simple:
      return x.work;
    default:
      return c.micro * x.work;
  }
}

Suffix extend(const Chain& c, int stage, const StageCost& x, const LinkCost& link, const Suffix& n) {
  const int64_t both = link.forward + link.backward, wide = std::max(link.forward, link.backward);
  Suffix s;
  s.round_trip = x.pass + both + n.round_trip;
  switch (c.kind) {
    case BoundKind::simple:
      s.round_trip = x.work + both + n.round_trip;
      s.span = std::max({n.span, x.work, both});
      return s;
    case BoundKind::gpipe:
      s.forward = std::max({n.forward, x.forward, link.forward});
      s.backward = std::max({n.backward, x.backward, link.backward});
      s.span = std::max({n.span, x.work, both});
      s.finish = std::max({n.finish + x.forward + link.forward,
                           s.round_trip + (c.micro - 1) * std::max(s.forward + s.backward, s.span) + x.tail, x.done});
      break;
    case BoundKind::one_f_one_b: {
      const int64_t trips = (c.micro - 1) / c.rule[stage].in_flight + 1;
      s.span = std::max({n.span + x.pass + both, c.micro * x.work, s.round_trip + x.rest, trips * s.round_trip,
                         s.round_trip + (c.micro - 1) * wide});
      s.finish = std::max({n.finish + x.forward + link.forward, s.span + x.tail, x.done});
      break;
    }
    case BoundKind::zero_bubble:
    case BoundKind::chunked:
      s.span = std::max({n.span + x.pass + both, c.micro * x.pass, s.round_trip + (c.micro - 1) * wide});
      s.finish = std::max(
          {n.finish + x.forward + link.forward, c.micro * x.work + x.tail, s.span + x.weight + x.tail, x.done});
      if (c.kind == BoundKind::chunked)
        s.mean = n.mean + mean_share(c, stage, x, link) + (c.backwards_end ? 0 : x.tail);
      break;
  }
  s.step = std::max(n.step, x.begin + s.finish);
  return s;
}

int64_t complete(const Chain& c, int stage, const Suffix& s, const Prefix& p) {
  switch (c.kind) {
    case BoundKind::simple:
      return s.round_trip + p.sum + (c.micro - 1) * std::max(s.span, p.most);
    case BoundKind::gpipe:
      return std::max({s.round_trip + p.sum + (c.micro - 1) * std::max({s.forward + s.backward, s.span, p.most}),
                       s.finish + p.forward, s.step});
    case BoundKind::one_f_one_b: {
      int64_t v = std::max({s.span + p.sum, s.finish + p.forward, s.step});
      if (stage > 0) {
        const int64_t trips = (c.micro - 1) / c.rule[0].in_flight + 1;
        v = std::max({v, s.round_trip + p.sum + p.most, trips * (s.round_trip + p.sum)});
      }
      return v;
    }
    case BoundKind::zero_bubble:
      return std::max({s.span + p.sum, s.finish + p.forward, s.step, p.most});
    case BoundKind::chunked:
      return std::max(
          {s.span + p.sum, s.finish + p.forward, s.step, p.most, (s.mean + p.mean + c.devices - 1) / c.devices});
  }
  return 0;
}

}  // namespace tern
