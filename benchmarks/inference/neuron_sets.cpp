#include "benchmarks/inference/neuron_sets.h"

#include <algorithm>
#include <numeric>

namespace tern {

Arithmetic by_sets(const Sets& sets, size_t k, size_t hidden, size_t most_run) {
  Arithmetic a;
  for (size_t t = 0; t < sets.size(); ++t) {
    std::vector<bool> there(hidden), missing(hidden);
    for (size_t b = t - std::min(t, k); b < t; ++b)
      for (const int i : sets[b]) there[static_cast<size_t>(i)] = true;
    for (const int i : sets[t]) missing[static_cast<size_t>(i)] = !there[static_cast<size_t>(i)];
    for (size_t i = 0, run = 0; i < hidden; ++i) {
      run = missing[i] ? run + 1 : 0;
      a.missing += missing[i], a.runs += run % most_run == 1 || (missing[i] && most_run == 1);
    }
    std::vector<bool> kept(hidden);
    for (size_t b = t + 1 - std::min(t + 1, std::max<size_t>(k, 1)); b <= t; ++b)
      for (const int i : sets[b]) kept[static_cast<size_t>(i)] = true;
    a.most_kept = std::max(a.most_kept, static_cast<size_t>(std::ranges::count(kept, true)));
  }
  return a;
}

int64_t missing_beside_hottest(const Sets& sets, const Sets& other, size_t hidden, size_t kept) {
  std::vector<int64_t> times(hidden);
  for (const std::vector<int>& set : other)
    for (const int i : set) ++times[static_cast<size_t>(i)];
  std::vector<size_t> order(hidden);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return times[a] > times[b]; });
  std::vector<bool> stays(hidden);
  for (size_t i = 0; i < kept; ++i) stays[order[i]] = true;
  int64_t missing = 0;
  for (const std::vector<int>& set : sets)
    missing += std::ranges::count_if(set, [&](int i) { return !stays[static_cast<size_t>(i)]; });
  return missing;
}

}  // namespace tern
