#include "calibrate/prediction_scores.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "calibrate/run_set.h"
#include "calibrate/run_words.h"

namespace tern {
namespace {

// Everything of a run that is not a planner's choice.
auto job_of(const PublishedRun& r) {
  return std::tuple(r.model, r.vocabulary, r.width, r.heads, r.kv_heads, r.layers, r.job.seq, r.job.batch, r.devices(),
                    r.traits.product_rate);
}

}  // namespace

PredictionErrors errors_of(const RunSet& runs, std::span<const size_t> rows, std::span<const double> predicted) {
  PredictionErrors e{.rows = rows.size()};
  if (rows.empty()) return e;
  std::vector<double> off, ratio;
  for (size_t k = 0; k < rows.size(); ++k) {
    const double measured = runs.run(rows[k]).seconds;
    off.push_back(std::abs(predicted[k] / measured - 1));
    ratio.push_back(measured / predicted[k]);
    e.mean += off.back() / static_cast<double>(rows.size());
  }
  std::sort(off.begin(), off.end());
  std::sort(ratio.begin(), ratio.end());
  // The least value that so many of the sorted ones do not exceed.
  const auto at = [](const std::vector<double>& sorted, double share) {
    const double place = std::ceil(share * static_cast<double>(sorted.size()) - 1e-9);
    return sorted[static_cast<size_t>(std::clamp(place, 1.0, static_cast<double>(sorted.size()))) - 1];
  };
  e.median = off.size() % 2 ? off[off.size() / 2] : (off[off.size() / 2 - 1] + off[off.size() / 2]) / 2;
  e.ninth = at(off, 0.9), e.most = off.back();
  e.least_ratio = at(ratio, 0.05), e.most_ratio = at(ratio, 0.95);
  return e;
}

Ordered ordered(const RunSet& runs, std::span<const size_t> rows, std::span<const double> predicted, double apart) {
  Ordered o;
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t k = 0; k < i; ++k) {
      const PublishedRun &a = runs.run(rows[i]), &b = runs.run(rows[k]);
      if (job_of(a) != job_of(b)) continue;
      if (std::max(a.seconds, b.seconds) <= (1 + apart) * std::min(a.seconds, b.seconds)) continue;
      ++o.pairs;
      if ((predicted[i] - predicted[k]) * (a.seconds - b.seconds) > 0)
        ++o.right;
      else
        o.wrong.emplace_back(rows[k], rows[i]);
    }
  return o;
}

std::vector<Regret> regrets(const RunSet& runs, std::span<const size_t> rows, std::span<const double> predicted) {
  struct Best {
    double predicted, measured, least;
    int count;
    std::string job;
  };
  std::map<decltype(job_of(runs.run(0))), Best> best;
  for (size_t k = 0; k < rows.size(); ++k) {
    const PublishedRun& r = runs.run(rows[k]);
    Best& b = best.try_emplace(job_of(r), Best{predicted[k], r.seconds, r.seconds, 0, job_words(r)}).first->second;
    if (predicted[k] < b.predicted || (predicted[k] == b.predicted && r.seconds > b.measured))
      b.predicted = predicted[k], b.measured = r.seconds;
    b.least = std::min(b.least, r.seconds), ++b.count;
  }
  std::vector<Regret> out;
  for (const auto& group : best) {
    const Best& b = group.second;
    if (b.count > 1) out.push_back({b.job, b.measured / b.least - 1});
  }
  return out;
}

}  // namespace tern
