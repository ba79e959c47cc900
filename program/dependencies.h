#pragma once
// What waits for what in a Program for many ranks, and an order in which it can run. The simulator and the validator
// share it; it does not depend on times.

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"

namespace tern {

/// The graph of a Program; instructions are numbered by their place in the list.
struct Dependencies {
  std::vector<int> first, list;  // instruction i waits for list[first[i]] … list[first[i + 1] − 1]
  std::vector<int> send_of;      // for each RECV its SEND; −1 for other instructions
  std::vector<int> order;        // an order in which all can run; shorter than the Program if there is a deadlock
  std::vector<std::string>
      faults;  // broken rules, without place: SENDs and RECVs without a partner, places that are not there
};

/// An instruction waits for: the one before it on its resource of its rank (for a SEND: on its link); the earlier
/// instruction of its rank that allocates what it reads; its `waits`. A RECV waits for its SEND (the same
/// buffer, from `peer` to its rank), not for its resource. Ranks and peers must be in range.
Dependencies dependencies_of(const Program&);

/// "rank 0 at [3] FORWARD unit 1 micro 0, which waits for [7] …" for each rank's first instruction that cannot run.
std::string describe_deadlock(const Program&, const Dependencies&);

}  // namespace tern
