// Bounds of an outer choice from its tables: nanoseconds each, before anything is searched.
#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/outer/candidates_impl.h"
#include "planner/outer/choice_bounds_impl.h"

namespace tern {
namespace {

// A bound in doubles as a number that sums of a few stay countable with.
int64_t whole_bound(double ps) { return static_cast<int64_t>(std::min(ps, 2 * kMostStepPs)); }

// Bounds that hold whatever the stages. Summed over the devices, P·T is at least
//   begin + (c − 1)·p + f + [the last micro-batch's gradients, or all synchronisation: both come after] + update
// and any mixture α of the two in the bracket; each layer adds its least. With a price mu on its persistent bytes and
// one micro-batch's, less mu times all the memory there is, it is Lagrange's bound for the devices' memory.
double shared_bound(const ChoiceTables& t, const Candidate& c, double alpha, double mu, double capacity) {
  double sum = 0;
  for (const ChoiceTables::Rows& rows : t.kinds) {
    double least = std::numeric_limits<double>::infinity();
    for (const CostVector& v : rows.cost[form_of(c)]) {
      const double gradient = static_cast<double>(gradient_ps(v)), forward = static_cast<double>(v.forward);
      const double last = (1 - alpha) * gradient + alpha * static_cast<double>(v.sync);
      least = std::min(least, static_cast<double>(c.num_micro - 1) * (forward + gradient) + forward + last +
                                  static_cast<double>(v.begin + v.update) +
                                  mu * static_cast<double>(v.persistent[0] + v.held[0]));
    }
    sum += least * rows.layers;
  }
  return sum / c.num_stages - mu * capacity;
}

int64_t least_edge(const SpaceOfChoices& space, const Candidate& c) {
  const std::vector<bool> near = in_one_node(space, c);
  return space.tables[static_cast<size_t>(c.tables)]
      .least_edge[std::find(near.begin(), near.end(), true) != near.end()];
}

}  // namespace

// Without split backwards a stage starts after the forwards before it and ends before the backwards: c·p_i + Σ_{j<i}
// p_j ≤ T for all i, which a balanced choice of p makes equal: T ≥ S / (1 − (1 − 1/c)^P).
int64_t cheap_bound(const SpaceOfChoices& space, const Candidate& c, int64_t capacity_bytes) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  const double capacity = static_cast<double>(capacity_bytes);
  double bound = 0;
  for (const double alpha : {0.0, 0.5, 1.0}) bound = std::max(bound, shared_bound(t, c, alpha, 0, capacity));
  const PipelineSchedule s = static_cast<PipelineSchedule>(c.schedule);
  if (fills_first(s) && c.num_stages > 1) {
    const double S = static_cast<double>(t.compute[1]), m = static_cast<double>(c.num_micro);
    bound = std::max(bound, S / -std::expm1(c.num_stages * std::log1p(-1 / m)));
    // The first micro-batch's way to the last stage and back; then, on the average stage, the other backwards, and the forwards
    // that are not in flight by then.
    const double P = static_cast<double>(c.num_stages), F = static_cast<double>(t.forward[1]);
    const double B = static_cast<double>(t.gradient[1]),
                 late = traits_of(s).in_flight == InFlight::stages_left ? std::max(0.0, m - P) : 0;
    bound = std::max(bound, F + B + (P - 1) * static_cast<double>(least_edge(space, c)) + ((m - 1) * B + late * F) / P);
  }
  const double scale = bound / capacity;  // ps per byte at which all the memory is worth the whole step
  for (const double mu : {0.0625, 0.125, 0.25, 0.5, 1.0, 2.0})
    bound = std::max(bound, shared_bound(t, c, 0, mu * scale, capacity));
  return whole_bound(bound * (1 - 1e-12));
}

int64_t crowding_bound(const SpaceOfChoices& space, const Candidate& c, double mu) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  const int form = form_of(c), P = c.num_stages;
  const double room = mu * static_cast<double>(most_capacity(space, t)[0]), micro = static_cast<double>(c.num_micro);
  const bool backwards_last = !splits_backward(static_cast<PipelineSchedule>(c.schedule));
  const int64_t both = P == 1 ? 0 : least_edge(space, c);
  const double edge = static_cast<double>(both) / (backwards_last ? 1 : 2);
  // Of each kind what a layer takes from a device at least, memory priced: work alone; with begin, update and the last
  // gradients; with the synchronisation in the place of those. And its time on the way to a stage behind, and back.
  struct PerLayer {
    double work = 1e300, own = 1e300, own_sync = 1e300, way = 1e300;
  };
  std::vector<PerLayer> kinds;
  for (const ChoiceTables::Rows& rows : t.kinds) {
    PerLayer k;
    for (const CostVector& v : rows.cost[form]) {
      const double f = static_cast<double>(v.forward), g = static_cast<double>(gradient_ps(v));
      const double work = micro * (f + g) + mu * static_cast<double>(v.persistent[0] + v.held[0]);
      const double ends = work + static_cast<double>(v.begin + v.update);
      k.work = std::min(k.work, work);
      k.own = std::min(k.own, ends);
      k.own_sync = std::min(k.own_sync, ends - g + static_cast<double>(v.sync));
      k.way = std::min(k.way, f + (backwards_last ? g : 0));
    }
    kinds.push_back(k);
  }
  // Stages 0 … d − 1 hold the first d layers at least.
  std::vector<double> lead(1, 0);
  for (int d = 1; d < P; ++d)
    lead.push_back(lead.back() + kinds[static_cast<size_t>(space.layers[static_cast<size_t>(d - 1)].kind)].way + edge);
  double bound = 0;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const PerLayer& k = kinds[i];
    const auto too_short = [&](double limit) {
      double places = 0;
      for (const double before : lead)
        places += std::max(0.0, std::floor(std::min({(limit - before + room) / k.work, (limit + room) / k.own,
                                                     (limit + room) / k.own_sync})));
      return places < t.kinds[i].layers;
    };
    double low = bound, high = std::max(1.0, bound);
    while (too_short(high)) low = high, high *= 2;
    while (high - low > 1e-7 * high) (too_short((low + high) / 2) ? low : high) = (low + high) / 2;
    bound = low;
  }
  return whole_bound(bound * (1 - 1e-9));
}

}  // namespace tern
