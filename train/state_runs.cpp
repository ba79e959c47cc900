#include "train/state_runs.h"

#include <algorithm>

#include "model/held_runs.h"

namespace tern {

void for_each_kept_run(const StateTensor& t, const TensorPlace& at, const VisitRun& visit) {
  const int64_t kept = t.own.empty() ? 0 : t.own.count();
  if (kept == 0) return;
  if (t.parts.empty()) return visit({.whole = t.begin, .own = 0, .count = kept});
  for_each_held_run(t.parts[static_cast<size_t>(at.place)], t.shape, [&](int64_t whole, int64_t part, int64_t count) {
    const int64_t begin = std::max(part, t.begin), end = std::min(part + count, t.begin + kept);
    if (begin < end) visit({.whole = whole + begin - part, .own = begin - t.begin, .count = end - begin});
  });
}

void for_each_written_run(const StateTensor& t, int rank, const TensorPlace& at, const VisitRun& visit) {
  const bool owns = t.owners.empty() ? rank == 0 : std::ranges::count(t.owners, rank, &RankInterval::rank) > 0;
  if (!owns) return;
  // Ranks of a tensor group have the same rows of a matrix or none in common, so a run is another's as a whole or not at all.
  const size_t before = t.parts.empty() ? 0 : static_cast<size_t>(at.place);
  for_each_kept_run(t, at, [&](const StateRun& run) {
    const auto has_it = [&](const Holding& held) { return holds_element(held, t.shape, run.whole); };
    if (std::none_of(t.parts.begin(), t.parts.begin() + static_cast<std::ptrdiff_t>(before), has_it)) visit(run);
  });
}

}  // namespace tern
