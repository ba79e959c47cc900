#include <algorithm>

#include "planner/instance/bound_model_impl.h"

namespace tern {

int64_t mean_share(const Chain& c, int stage, const StageCost& x, const LinkCost& link) {
  int64_t u = c.micro * x.p;
  if (const int64_t behind = c.devices - 1 - stage; behind > 0)
    u += behind * (x.f + link.forward + (c.interleaved ? x.b + link.backward : 0));
  return u;
}

int64_t most_share(const Chain& c, const StageCost& x) {
  switch (c.kind) {
    case BoundKind::one_f_one_b:
      return x.q;
    case BoundKind::gpipe:
    case BoundKind::simple:
      return x.p;
    default:
      return c.micro * x.p;
  }
}

Suffix extend(const Chain& c, int stage, const StageCost& x, const LinkCost& link, const Suffix& n) {
  const int64_t both = link.forward + link.backward, wide = std::max(link.forward, link.backward);
  Suffix s;
  s.t = x.r + both + n.t;
  switch (c.kind) {
    case BoundKind::simple:
      s.t = x.p + both + n.t;
      s.y = std::max({n.y, x.p, both});
      return s;
    case BoundKind::gpipe:
      s.forward = std::max({n.forward, x.f, link.forward});
      s.backward = std::max({n.backward, x.b, link.backward});
      s.y = std::max({n.y, x.p, both});
      s.z = std::max(
          {n.z + x.f + link.forward, s.t + (c.micro - 1) * std::max(s.forward + s.backward, s.y) + x.tail, x.done});
      break;
    case BoundKind::one_f_one_b: {
      const int64_t trips = (c.micro - 1) / c.rule[stage].in_flight + 1;
      s.y = std::max({n.y + x.r + both, c.micro * x.p, s.t + x.q, trips * s.t, s.t + (c.micro - 1) * wide});
      s.z = std::max({n.z + x.f + link.forward, s.y + x.tail, x.done});
      break;
    }
    case BoundKind::zero_bubble:
    case BoundKind::chunked:
      s.y = std::max({n.y + x.r + both, c.micro * x.r, s.t + (c.micro - 1) * wide});
      s.z = std::max({n.z + x.f + link.forward, c.micro * x.p + x.tail, s.y + x.w + x.tail, x.done});
      if (c.kind == BoundKind::chunked) s.u = n.u + mean_share(c, stage, x, link) + (c.interleaved ? 0 : x.tail);
      break;
  }
  s.g = std::max(n.g, x.begin + s.z);
  return s;
}

int64_t complete(const Chain& c, int stage, const Suffix& s, const Prefix& p) {
  switch (c.kind) {
    case BoundKind::simple:
      return s.t + p.sum + (c.micro - 1) * std::max(s.y, p.most);
    case BoundKind::gpipe:
      return std::max(
          {s.t + p.sum + (c.micro - 1) * std::max({s.forward + s.backward, s.y, p.most}), s.z + p.forward, s.g});
    case BoundKind::one_f_one_b: {
      int64_t v = std::max({s.y + p.sum, s.z + p.forward, s.g});
      if (stage > 0) {
        const int64_t trips = (c.micro - 1) / c.rule[0].in_flight + 1;
        v = std::max({v, s.t + p.sum + p.most, trips * (s.t + p.sum)});
      }
      return v;
    }
    case BoundKind::zero_bubble:
      return std::max({s.y + p.sum, s.z + p.forward, s.g, p.most});
    case BoundKind::chunked:
      return std::max({s.y + p.sum, s.z + p.forward, s.g, p.most, (s.u + p.u + c.devices - 1) / c.devices});
  }
  return 0;
}

}  // namespace tern
