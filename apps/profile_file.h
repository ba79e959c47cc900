#pragma once
// The cluster file that `tern profile` writes of this machine.

#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench_rounds.h"
#include "apps/profile.h"
#include "apps/rank_team.h"

namespace tern {

/// The machine, beside its rates.
struct ProfiledMachine {
  std::string name, date, tern, isa;
  int ranks = 1, threads = 1;  // threads of each rank
  TeamLinks links = TeamLinks::memory;
  int64_t memory_bytes = 0, reserved_bytes = 0, disk_bytes = 0;
};

/// How many figures spread by more than 10 % over the rounds, of how many, and the widest of them.
struct ProfileNoise {
  bool told = true;  // false: there were too few rounds to judge a spread
  int64_t figures = 0, wide = 0;
  std::string widest;
  double spread = 0;
  /// More than a tenth of the figures: what is predicted from the file may be as far off.
  bool too_noisy() const { return told && wide * 10 > figures; }
};
ProfileNoise profile_noise(const std::vector<BenchResult>&);
/// "", or what to tell.
std::string describe(const ProfileNoise&);

/// The cluster file: one node with a device for each rank, this machine. Rates are medians over the rounds; each says how it was
/// measured, and [[measured]] has the quartiles. Shares that noise makes rise faster than the shape are lowered to
/// values that the reader of cluster files accepts. Order: the same results, the same bytes.
std::string profile_toml(const ProfileTasks&, const std::vector<BenchResult>&, const ProfiledMachine&);

}  // namespace tern
