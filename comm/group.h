#pragma once
// Some ranks of a world as a world of their own, for what the ranks along an axis of a mesh do together.

#include <memory>
#include <vector>

#include "comm/transport.h"

namespace tern {

/// `ranks`: of the world, ascending, this one among them; a rank's number in the group is its index in `ranks`. Messages go
/// through the world's transport, which must outlive it; messages between two ranks keep their order across groups. flush
/// waits for all that this rank has sent to the group.
/// Errors  TERN_CHECK: this rank is not among them; a call of reconfigure, which only the world's transport may do.
std::unique_ptr<Transport> group_of(Transport& world, std::vector<int> ranks);

}  // namespace tern
