#include "adapt/task_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tern {
namespace {

// All but the `kept` numbers of the largest size are zero.
void keep_largest(std::vector<double>& x, size_t kept) {
  if (kept >= x.size()) return;
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto first = [&](size_t i, size_t j) {
    const double a = std::abs(x[i]), b = std::abs(x[j]);
    return a != b ? a > b : i < j;
  };
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), first);
  for (size_t i = kept; i < order.size(); ++i) x[order[i]] = 0;
}

void prune(Arithmetic arithmetic, size_t list, std::vector<double>& x, double density, const Draw& draw) {
  if (density >= 1 || arithmetic == Arithmetic::linear) return;
  if (arithmetic == Arithmetic::ties || arithmetic == Arithmetic::magnitude_prune)
    return keep_largest(x, static_cast<size_t>(density * static_cast<double>(x.size())));
  for (size_t i = 0; i < x.size(); ++i) x[i] = draw(list, i) < density ? x[i] / density : 0;
}

// Mean of the numbers that have the sign of the majority; a tie is positive, and a zero has no sign.
double agreed(const std::vector<std::vector<double>>& lists, const std::vector<double>& weights, size_t at,
              MajoritySign by) {
  double votes = 0;
  for (const auto& x : lists) votes += by == MajoritySign::total ? x[at] : (x[at] > 0) - (x[at] < 0);
  double sum = 0;
  int count = 0;
  for (size_t i = 0; i < lists.size(); ++i) {
    const double x = lists[i][at];
    if (x == 0 || (x > 0) != (votes >= 0)) continue;
    sum += weights[i] * x;
    ++count;
  }
  return sum / std::max(count, 1);
}

}  // namespace

std::vector<double> combined_numbers(Arithmetic arithmetic, std::vector<std::vector<double>> lists,
                                     const std::vector<double>& weights, double density, MajoritySign sign,
                                     const Draw& draw) {
  for (size_t i = 0; i < lists.size(); ++i) prune(arithmetic, i, lists[i], density, draw);
  const bool elects = arithmetic == Arithmetic::ties || arithmetic == Arithmetic::dare_ties;
  std::vector<double> sums(lists.front().size());
  for (size_t at = 0; at < sums.size(); ++at) {
    if (elects) {
      sums[at] = agreed(lists, weights, at, sign);
      continue;
    }
    for (size_t i = 0; i < lists.size(); ++i) sums[at] += weights[i] * lists[i][at];
  }
  return sums;
}

}  // namespace tern
