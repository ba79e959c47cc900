#pragma once
// Which instruction of a Program for many ranks waits for which, and an order in which all instructions can run. The
// simulator and the validator use the same graph. The graph does not depend on times.

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"

namespace tern {

/// The graph of a Program; instructions are numbered by their place in the list.
struct Dependencies {
  std::vector<int> first, list;  // instruction i waits for list[first[i]] … list[first[i + 1] − 1]
  std::vector<int> send_of;      // for each RECV its SEND (same buffer); −1 for other instructions
  std::vector<int> order;        // an order in which all can run; in a deadlock only those that can run
  std::vector<std::string>
      faults;  // broken rules with the instruction: SEND or RECV without a partner, doubled SEND, `waits` out of range
};

/// Instruction i waits for the previous instruction of i's rank on i's resource (a SEND: on the link to `peer`), for
/// the instructions of i's rank that allocated what i reads, and for i's `waits`. A RECV waits for its SEND
/// instead of the previous instruction of its rank. This is for `order`; on the simulator's clock a RECV starts and ends
/// with its SEND. Ranks and peers must be in range.
Dependencies dependencies_of(const Program&);

/// "rank 0 at [3] FORWARD unit 1 micro 0, which waits for [7] …" for each rank's first instruction that cannot run.
std::string describe_deadlock(const Program&, const Dependencies&);

}  // namespace tern
