#pragma once
// The cluster file that `tern profile` writes of this machine.

#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench_rounds.h"
#include "apps/profile.h"
#include "apps/rank_team.h"

namespace tern {

/// What the file says of the machine beside its rates.
struct ProfiledMachine {
  std::string name, date, tern, isa;
  int ranks = 1, threads = 1;  // threads of each rank
  int cpus = 0;                // that this process may use; 0: not known
  TeamLinks links = TeamLinks::memory;
  int64_t memory_bytes = 0, reserved_bytes = 0, disk_bytes = 0;
};

/// How much the figures spread over the rounds.
struct ProfileNoise {
  bool told = true;     // false: there were too few rounds to judge a spread
  int64_t figures = 0;  // how many figures there are
  int64_t wide = 0;     // how many of them spread by more than 10 %
  std::string widest;   // the name of the figure with the widest spread
  double spread = 0;    // its spread, as a share of its median
  /// Whether more than a tenth of the figures are wide. Then predictions from the file may be as far off.
  bool too_noisy() const { return told && wide * 10 > figures; }
};
ProfileNoise profile_noise(const std::vector<BenchResult>&);
/// A warning for people; "": there is nothing to warn of.
std::string describe(const ProfileNoise&);

/// A warning for people: the ranks' threads share CPUs; "": each has its own, or that is not known.
std::string shared_cpus(const ProfiledMachine&);

/// The cluster file: this machine as one node, with a device for each rank. Rates are medians over the rounds; each says how it
/// was measured, and [[measured]] has the quartiles. If by noise a larger product took less time than a smaller one, the larger
/// one's share is lowered until it takes more, as the reader of cluster files refuses such tables. Equal results give equal bytes.
std::string profile_toml(const ProfileTasks&, const std::vector<BenchResult>&, const ProfiledMachine&);

}  // namespace tern
