// When fragments are averaged and count, and who with whom.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "update/outer.h"

namespace tern {

std::string outer_fault(const OuterConfig& c, int units) {
  if (c.fragments > units)
    return fmt::format("--outer-fragments {}: the model has {} units to cut between; choose at most as many",
                       c.fragments, units);
  if (c.fragments > c.every)
    return fmt::format(
        "--outer-fragments {}: each has its turn within --outer-every {} steps; choose fewer, or more steps",
        c.fragments, c.every);
  if (c.delay > c.every || (c.delay == c.every && c.mix > 0))
    return fmt::format(
        "--outer-delay {}: an average counts before its fragment is sent again, --outer-every {} steps later; "
        "choose less",
        c.delay, c.every);
  return "";
}

int fragment_of(int unit, int units, int fragments) {
  return static_cast<int>(static_cast<int64_t>(unit) * fragments / units);
}

bool sends_at(const OuterConfig& c, int fragment, int64_t step) {
  return step > 0 && (step + fragment * c.every / c.fragments) % c.every == 0;
}
bool counts_at(const OuterConfig& c, int fragment, int64_t step) {
  return sends_at(c, fragment, c.delay == c.every ? step : step - c.delay);
}

bool is_away(const OuterConfig& c, int rank, int64_t step) {
  return std::ranges::any_of(c.away,
                             [&](const OuterAbsence& a) { return a.rank == rank && a.from <= step && step <= a.to; });
}
int present_at(const OuterConfig& c, int ranks, int64_t step) {
  int present = 0;
  for (int rank = 0; rank < ranks; ++rank) present += !is_away(c, rank, step);
  return present;
}

std::vector<int> partners_at(const OuterConfig& c, int fragment, int ranks, int64_t step) {
  std::vector<int> partners(static_cast<size_t>(ranks)), here;
  std::iota(partners.begin(), partners.end(), 0);
  for (int rank = 0; rank < ranks; ++rank)
    if (!is_away(c, rank, step)) here.push_back(rank);
  const RngKey key{c.seed, hash_name(fmt::format("outer pairs {} {}", step, fragment))};
  const auto drawn = [&](size_t i) { return here[random_permutation(key, i, here.size())]; };
  for (size_t i = 0; i + 1 < here.size(); i += 2) {
    const int one = drawn(i), other = drawn(i + 1);
    partners[static_cast<size_t>(one)] = other, partners[static_cast<size_t>(other)] = one;
  }
  return partners;
}

int64_t last_step_that_counts(const OuterConfig& c, int64_t step) {
  return std::max<int64_t>(0, (step - c.delay) / c.every * c.every);
}

}  // namespace tern
