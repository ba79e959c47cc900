#pragma once
// A group: some ranks of a world as a world of their own. The ranks along one axis of a mesh work together in such a group.

#include <memory>
#include <vector>

#include "comm/transport.h"

namespace tern {

/// `ranks`: the group's ranks, by their numbers in the world, ascending, this rank among them. A rank's number in the group is its
/// index in `ranks`. Messages go through the world's transport, which must outlive the group's. Messages between two ranks keep their
/// order across groups. flush waits for all messages that this rank has sent to ranks of the group.
/// Errors  TERN_CHECK: `ranks` lacks this rank; a call of reconfigure (only the world's transport may reconfigure).
std::unique_ptr<Transport> group_of(Transport& world, std::vector<int> ranks);

}  // namespace tern
