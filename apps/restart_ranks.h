#pragma once
// With how many ranks `tern launch` starts a command again after a loss.

#include <string>
#include <vector>

#include "base/options.h"

namespace tern {

/// A command of `tern train` runs on multiples of so many ranks. per_share: ranks that compute one share of the batch together
/// (--tensor-parallel times --context-parallel); 1 if the number of ranks is fixed.
struct RankUnit {
  int ranks = 1, per_share = 1;
  std::string why;  // "--ranks 4 is given"; empty: any number does
};

/// All ranks where --plan or --ranks says how many, and of `ranks` under --zero 2 and 3, whose sums no other number has; else the smallest
/// number that groups of --tensor-parallel, --context-parallel and --expert-parallel divide. `arguments`: those after `train`; `ranks`: with
/// which it starts. If the command cannot be read, all ranks are restarted; they say what is wrong with it.
RankUnit rank_unit_of(const std::vector<std::string>& arguments, int ranks, Environment);

/// Half as many, which keeps the order of sums; as many as before if half are fewer than `least`, or no multiple of `unit`.
int ranks_after_loss(int ranks, int least, int unit);

}  // namespace tern
