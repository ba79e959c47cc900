#include "calibrate/folds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/rng.h"

namespace tern {
namespace {

// Everything of a run that is not a planner's choice.
auto job_of(const PublishedRun& r) {
  return std::tuple(r.model, r.vocabulary, r.width, r.heads, r.layers, r.job.seq, r.job.batch, r.devices(),
                    r.product_rate);
}

}  // namespace

std::string_view name_of(FoldBy by) { return by == FoldBy::rows ? "rows" : by == FoldBy::layout ? "layout" : "model"; }

std::string model_words(const PublishedRun& r) {
  if (!r.model.empty()) return r.model;
  return fmt::format("width {}, {} layers", r.width, r.layers);
}

std::string job_words(const PublishedRun& r) {
  return fmt::format("{}, {} of {} tokens on {} devices{}", model_words(r), r.job.batch, r.job.seq, r.devices(),
                     r.product_rate > 1 ? " in 8 bits" : "");
}

std::vector<std::vector<size_t>> folds_of(const RunSet& runs, std::span<const size_t> rows, FoldBy by, uint64_t seed,
                                          int parts) {
  TERN_CHECK(parts >= 2, "folds_of: {} parts", parts);
  std::vector<std::vector<size_t>> out;
  if (by == FoldBy::rows) {
    const RngKey key{seed, hash_name("folds")};
    out.resize(std::min<size_t>(static_cast<size_t>(parts), rows.size()));
    for (size_t i = 0; i < rows.size(); ++i)
      out[i % out.size()].push_back(rows[random_permutation(key, i, rows.size())]);
    for (auto& fold : out) std::sort(fold.begin(), fold.end());
    return out;
  }
  std::map<std::tuple<std::string, std::array<int64_t, 6>>, std::vector<size_t>> groups;
  for (const size_t i : rows) {
    const PublishedRun& r = runs.run(i);
    const Mesh& m = r.choice.mesh;
    if (by == FoldBy::layout)
      groups[{"", {m.tensor, m.context, m.data, m.expert, m.expert_tensor, r.choice.num_stages}}].push_back(i);
    else
      groups[{r.model, {r.width}}].push_back(i);
  }
  for (auto& group : groups) out.push_back(std::move(group.second));
  return out;
}

std::vector<double> left_out(const RunSet& runs, std::span<const size_t> rows,
                             const std::vector<std::vector<size_t>>& folds, const FitOptions& options) {
  std::map<size_t, double> of;
  for (const std::vector<size_t>& fold : folds) {
    std::vector<size_t> rest;
    for (const size_t i : rows)
      if (std::find(fold.begin(), fold.end(), i) == fold.end()) rest.push_back(i);
    if (rest.empty())
      throw Error(ErrorKind::usage, "calibrate: a fold holds every row, nothing is left to fit; fold by rows");
    const std::vector<double> predicted = runs.seconds(fold, fit_constants(runs, rest, options).constants);
    for (size_t k = 0; k < fold.size(); ++k) of[fold[k]] = predicted[k];
  }
  std::vector<double> out;
  for (const size_t i : rows) out.push_back(of.at(i));
  return out;
}

Errors errors_of(const RunSet& runs, std::span<const size_t> rows, std::span<const double> predicted) {
  Errors e{.rows = rows.size()};
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
