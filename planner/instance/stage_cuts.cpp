#include <algorithm>
#include <cmath>

#include "planner/instance/stage_cuts_impl.h"

namespace tern {
namespace {

// What a cut adds up, as weights of a unit's times.
struct Weights {
  double forward = 1, backward = 1, weight = 1;
  double ends = 0;  // of sync and update, less the last gradient operation
};
Weights weights_of(const Chain& chain, const StageRule& rule, CutOn on) {
  const double c = static_cast<double>(chain.micro);
  if (on == CutOn::work_and_rest) return {1 + c - static_cast<double>(rule.in_flight), c, 1, 0};
  if (on == CutOn::done) return {c, c, c, 1};
  return {};
}

}  // namespace

StageCuts::StageCuts(const Chain& chain, int stage, const std::vector<double>& lambdas) : chain_(chain), stage_(stage) {
  const StageRule& rule = chain.rule[stage];
  for (const double lambda : lambdas) kinds_.push_back({lambda, CutOn::work, {}});
  // With one micro-batch in flight q is a multiple of p.
  if (chain.kind == BoundKind::one_f_one_b && rule.in_flight > 1) {
    const Weights w = weights_of(chain, rule, CutOn::work_and_rest);
    for (const double lambda : lambdas)
      kinds_.push_back({lambda * (w.forward + 2 * w.backward) / 3, CutOn::work_and_rest, {}});
  }
  if (chain.has_tail && chain.kind != BoundKind::simple && chain.kind != BoundKind::chunked)
    for (const double lambda : lambdas) kinds_.push_back({lambda * static_cast<double>(chain.micro), CutOn::done, {}});
  unit_.resize(chain.layers);
  for (int u = 0; u < chain.layers; ++u) {
    if (chain.form[u] != u) continue;
    const auto& states = chain.states[u];
    unit_[u].assign(states.size() * kinds_.size(), 1e300);
    for (size_t s = 0; s < states.size(); ++s)
      for (const OptionCost& c : states[s].options) {
        if (!rule.takes(states[s])) continue;
        const double bytes = static_cast<double>(chain.stage_bytes(c, rule, 0));
        for (size_t m = 0; m < kinds_.size(); ++m) {
          const Weights w = weights_of(chain, rule, kinds_[m].on);
          const double time = w.forward * static_cast<double>(c.forward) +
                              w.backward * static_cast<double>(c.backward) + w.weight * static_cast<double>(c.weight) +
                              w.ends * static_cast<double>(c.sync + c.update - c.last_gradient);
          double& x = unit_[u][s * kinds_.size() + m];
          x = std::min(x, time + kinds_[m].lambda * bytes);
        }
      }
  }
}

Cuts StageCuts::make(int end, int length, const std::vector<TimeLimit>& limit) const {
  const StageRule& rule = chain_.rule[stage_];
  Cuts cuts;
  for (int j = 0; j < length; ++j)
    cuts.width = std::max(cuts.width, static_cast<int>(chain_.states[end - 1 - j].size()));
  for (size_t m = 0; m < kinds_.size(); ++m) {
    Cut cut = kinds_[m];
    const Weights w = weights_of(chain_, rule, cut.on);
    cut.limit.assign(static_cast<size_t>(length) * cuts.width, kNoLimit);
    for (int j = length - 1; j >= 0; --j) {
      const int u = end - 1 - j;
      const double time = limit[j].of(cut.on);
      for (size_t s = 0; s < chain_.states[u].size(); ++s) {
        double best = kNoLimit;
        if (limit[j].work > kNoLimit)
          best = time + cut.lambda * static_cast<double>(rule.capacity[0]) -
                 w.forward * static_cast<double>(chain_.states[u][s].entry_forward);
        if (j + 1 < length) {
          const double* further = cut.limit.data() + static_cast<size_t>(j + 1) * cuts.width;
          const double* unit = unit_[chain_.form[u - 1]].data();
          for (size_t t = 0; t < chain_.states[u - 1].size(); ++t) {
            const EdgeCost& edge = chain_.within(u - 1, static_cast<int>(t), static_cast<int>(s));
            const double way = w.forward * static_cast<double>(edge.forward) +
                               (w.backward - (chain_.split ? 0 : w.ends)) * static_cast<double>(edge.backward);
            best = std::max(best, further[t] - way - unit[t * kinds_.size() + m]);
          }
        }
        cut.limit[static_cast<size_t>(j) * cuts.width + s] = best;
      }
    }
    // Sums in doubles: give up more than they can be wrong by.
    for (double& x : cut.limit) x += std::abs(x) * 1e-10 + 1;
    cuts.cuts.push_back(std::move(cut));
  }
  return cuts;
}

}  // namespace tern
