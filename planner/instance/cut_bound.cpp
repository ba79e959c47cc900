#include <algorithm>
#include <cmath>

#include "planner/instance/cut_bound_impl.h"
#include "program/pipeline_cut.h"

namespace tern {
namespace {

constexpr int kPriceSteps = 12;
constexpr int kPriceAgain = 8;       // rounds between two searches for the price of memory
constexpr int kPatience = 16;        // rounds without a better bound
constexpr double kDearer = 0.5;      // of a device's price in a round, for each time its room is overdrawn
constexpr double kLeastDear = 1e-6;  // so that a device can become dear again

int64_t floor_or_never(double x) { return x >= 1e18 ? kNever : floor_safely(x); }

// Stage times of what assignments pass on average: a stage takes the larger of its compute and its share of the host
// link; a device's backlog is the largest sum over the stages from its lowest one on.
struct MeanTimes {
  PipelineTimes times;
  std::vector<size_t> backlog_until;  // per device: stages below it count
};
MeanTimes times_of(const Chain& chain, const PathTerms& t) {
  const size_t stages = static_cast<size_t>(chain.stages), devices = static_cast<size_t>(chain.devices);
  const auto whole = [](double x) { return static_cast<int64_t>(std::llround(x)); };
  MeanTimes out{.times = {}, .backlog_until = std::vector<size_t>(devices, 0)};
  PipelineTimes& p = out.times;
  std::vector<double> backlog(devices, 0), most(devices, 0);
  for (size_t s = 0; s < stages; ++s) {
    p.forward.push_back(whole(std::max(t.forward[s], t.host_forward[s])));
    p.backward.push_back(whole(std::max(t.backward[s], t.host_backward[s])));
    p.weight.push_back(whole(t.weight[s]));
    if (s + 1 < stages) p.send_forward.push_back(whole(t.send_forward[s]));
    if (s + 1 < stages) p.send_backward.push_back(whole(t.send_backward[s]));
    const size_t device = static_cast<size_t>(chain.rule[s].device);
    backlog[device] += t.sync[s];
    if (backlog[device] > most[device]) most[device] = backlog[device], out.backlog_until[device] = s + 1;
  }
  for (size_t d = 0; d < devices; ++d) {
    p.begin.push_back(whole(t.begin[d]));
    p.tail.push_back(whole(t.update[d] + most[d]));
  }
  return out;
}

// The longest path at those times, as weights.
PathTerms longest_path(const Chain& chain, const PreparedPipeline& prepared, const PathTerms& amounts) {
  const MeanTimes at = times_of(chain, amounts);
  const PipelineCut cut = pipeline_cut(prepared, at.times);
  const auto wide = [](const std::vector<int64_t>& x) { return std::vector<double>(x.begin(), x.end()); };
  const std::vector<double> none(static_cast<size_t>(chain.stages), 0);
  PathTerms w{.forward = wide(cut.forward),
              .backward = wide(cut.backward),
              .weight = wide(cut.weight),
              .host_forward = none,
              .host_backward = none,
              .sync = none,
              .send_forward = wide(cut.send_forward),
              .send_backward = wide(cut.send_backward),
              .begin = wide(cut.begin),
              .update = wide(cut.tail),
              .bytes = std::vector<double>(amounts.bytes.size(), 0)};
  for (size_t s = 0; s < none.size(); ++s) {
    if (amounts.host_forward[s] > amounts.forward[s]) std::swap(w.forward[s], w.host_forward[s]);
    if (amounts.host_backward[s] > amounts.backward[s]) std::swap(w.backward[s], w.host_backward[s]);
    const size_t device = static_cast<size_t>(chain.rule[s].device);
    if (s < at.backlog_until[device]) w.sync[s] = w.update[device];
  }
  return w;
}

struct Start {
  double bound = -1;
  PathTerms weights;
  double mu = 0;
};
// The price of memory is looked for where the bound is best without one.
Start best_mean(const Chain& chain, Relaxation& relaxation) {
  Start best;
  for (PathTerms& w : mean_paths(chain)) {
    const double value = relaxation.least(w, 0);
    if (value > best.bound) best = {value, std::move(w), 0};
  }
  best.bound = relaxation.price_memory(best.weights, kPriceSteps);
  best.mu = relaxation.mu();
  return best;
}

// A byte becomes dearer on devices whose layers take more of their room than others' on the average of the walk's
// answers, and cheaper elsewhere: the rule of multiplied weights, towards the best prices.
std::vector<double> dearer_where_short(const Relaxation& relaxation, const std::vector<double>& bytes) {
  std::vector<double> dear = relaxation.dear(), use;
  double mean_use = 0, mean = 0;
  for (size_t i = 0; i < dear.size(); ++i) {
    use.push_back(bytes[i] / std::max(1.0, relaxation.room(static_cast<int>(i))));
    mean_use += use.back() / static_cast<double>(dear.size());
  }
  for (size_t i = 0; i < dear.size(); ++i) {
    dear[i] = std::max(kLeastDear, dear[i] * std::exp(std::clamp(kDearer * (use[i] - mean_use), -1.0, 1.0)));
    mean += dear[i] / static_cast<double>(dear.size());
  }
  for (double& x : dear) x /= mean;
  return dear;
}

}  // namespace

int64_t mean_bound(const Chain& chain) {
  Relaxation relaxation(chain);
  return floor_or_never(best_mean(chain, relaxation).bound);
}

// Two players that answer each other's average: one with the longest path, one with the assignment least along it.
CutBound cut_bound(const Chain& chain, int64_t upper_bound, int rounds) {
  Relaxation relaxation(chain);
  const Start start = best_mean(chain, relaxation);
  CutBound out{
      .bound = floor_or_never(start.bound), .weights = start.weights, .mu = start.mu, .dear = relaxation.dear()};
  const int64_t operations = int64_t{3} * chain.stages * chain.micro;
  if (!chain.order_fixed || operations > kMostOperationsFollowed || out.bound >= upper_bound) return out;
  PathTerms amounts = relaxation.even_amounts(), weights = start.weights;
  const PipelineShape shape = shape_of(*chain.in);
  const PreparedPipeline prepared = prepare_pipeline(shape, pipeline_order(shape, times_of(chain, amounts).times));
  double mu = start.mu;
  for (int round = 0, better = 0; round < rounds && out.bound < upper_bound; ++round) {
    const double share = 2.0 / (round + 3);
    mix_in(weights, longest_path(chain, prepared, amounts), share);
    if (round % kPriceAgain == kPriceAgain - 1) {
      relaxation.price_memory(weights, kPriceSteps);
      mu = relaxation.mu();
    }
    if (const int64_t bound = floor_or_never(relaxation.least(weights, mu)); bound > out.bound)
      out.bound = bound, out.weights = weights, out.mu = mu, out.dear = relaxation.dear(), better = round;
    if (round - better >= kPatience) break;
    mix_in(amounts, relaxation.amounts(relaxation.assignment()), share);
    if (mu > 0) relaxation.set_dear(dearer_where_short(relaxation, amounts.bytes));
  }
  return out;
}

}  // namespace tern
