#pragma once
// Which instruction of a Program for many ranks waits for which, and an order in which all instructions can run. The
// simulator and the validator use the same graph. The graph does not depend on times.

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "program/program.h"

namespace tern {

/// A buffer of a rank: rank, kind, unit, micro-batch, tier, part.
using BufferKey = std::tuple<int, BufferKind, int, int, Tier, int>;
inline BufferKey buffer_key(int rank, const Buffer& b) { return {rank, b.kind, b.unit, b.micro, b.tier, b.part}; }

/// The graph of a Program; instructions are numbered by their place in the list.
struct Dependencies {
  std::vector<int> first, list;  // instruction i waits for list[first[i]] … list[first[i + 1] − 1]
  std::vector<int> send_of;      // of a RECV: the place of its SEND (same buffer), if there is one; else −1
  std::vector<int> order;        // in which all instructions can run; in a deadlock, without those that cannot
  std::vector<std::string>
      faults;  // broken rules, each with its instruction: SEND or RECV without a partner, doubled SEND, `waits` out of range
};

/// Instruction i waits for the previous instruction of i's rank on i's resource (a SEND: on the link to `peer`), for
/// the instructions of i's rank that allocated the buffers that i reads, and for i's `waits`. A RECV waits for its SEND, and for no
/// other instruction on a link. So in `order` a RECV follows its SEND, although on the simulator's clock
/// the two start and end together. The ranks and peers of the Program must be in range.
Dependencies dependencies_of(const Program&);

/// "rank 0 at [3] FORWARD unit 1 micro 0, which waits for [7] …" for each rank's first instruction that cannot run.
std::string describe_deadlock(const Program&, const Dependencies&);

}  // namespace tern
