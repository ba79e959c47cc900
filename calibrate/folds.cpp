#include "calibrate/folds.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/rng.h"
#include "calibrate/run_set.h"

namespace tern {

std::string_view name_of(FoldBy by) { return by == FoldBy::rows ? "rows" : by == FoldBy::layout ? "layout" : "model"; }

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

}  // namespace tern
