#include "plan/comm_cost.h"

#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "hardware/rates.h"

namespace tern {
namespace {

// Visits the levels a group's traffic uses: (level, domains outside which bytes come, of which groups of `inner` ranks
// share the links).
template <class Visit>
void for_each_level(const Machine& m, const RankGroup& g, const Visit& visit) {
  int64_t inner = 1;  // the group's ranks in a domain of the level inside
  for (const LinkLevel& level : m.levels) {
    if (inner >= g.ranks) return;
    const int64_t here = std::clamp<int64_t>(level.devices / g.stride, 1, g.ranks);
    if (here == inner) continue;  // no two domains of the group meet at this level
    visit(level, inner, ceil_div(g.ranks, inner), ceil_div(here, inner));
    inner = here;
  }
  TERN_CHECK(inner >= g.ranks, "a group of {} ranks, {} apart, on {} devices", g.ranks, g.stride, m.num_devices());
}

}  // namespace

int64_t ps_of(double amount, double rate) { return amount <= 0 ? 0 : counted_ps(amount / rate * 1e12); }

int64_t all_gather_ps(const Machine& m, RankGroup g, int64_t bytes) {
  int64_t latency = 0, slowest = 0;
  for_each_level(m, g, [&](const LinkLevel& level, int64_t inner, int64_t domains, int64_t meeting) {
    const double entering = static_cast<double>(bytes) * (1 - 1 / static_cast<double>(domains));
    slowest = std::max(slowest, ps_of(entering, level.bandwidth * static_cast<double>(inner)));
    latency = std::min(kMostPs, latency + counted_ps(meeting - 1, level.latency_ps));
  });
  return std::min(kMostPs, latency + slowest);
}

int64_t reduce_scatter_ps(const Machine& m, RankGroup g, int64_t bytes) { return all_gather_ps(m, g, bytes); }
int64_t all_reduce_ps(const Machine& m, RankGroup g, int64_t bytes) {
  return counted_ps(2, all_gather_ps(m, g, bytes));
}

int64_t all_to_all_ps(const Machine& m, RankGroup g, int64_t bytes) {
  int64_t latency = 0, slowest = 0;
  for_each_level(m, g, [&](const LinkLevel& level, int64_t inner, int64_t domains, int64_t) {
    // Of what a device sends, the part for other domains leaves through this level.
    const double leaving = static_cast<double>(bytes) * (1 - 1 / static_cast<double>(domains));
    slowest = std::max(slowest, ps_of(leaving, level.bandwidth));
    latency = std::min(kMostPs, latency + level.latency_ps);
    (void)inner;
  });
  return std::min(kMostPs, latency + slowest);
}

int64_t send_ps(const Machine& m, int64_t distance, bool inside, int64_t bytes) {
  const LinkLevel* level = &m.levels.front();
  if (!inside)
    for (size_t i = 1; i < m.levels.size(); ++i) {
      level = &m.levels[i];
      if (distance <= level->devices) break;
    }
  return level->latency_ps + ps_of(static_cast<double>(bytes), level->bandwidth);
}

}  // namespace tern
