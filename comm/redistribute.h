#pragma once
// redistribute: moves a tensor from one layout to another, as spec/redistribution.h says. Only tests call it so far.

#include "comm/comm.h"
#include "spec/redistribution.h"

namespace tern {

/// Every rank gives what it holds under `from` and gets what it holds under `to`.
/// Shapes  local: any shape with as many elements as local_shape(holding(from, rank)); the result: local_shape(holding(to,
///         rank)).
/// Order   sums over partial axes: the tree of spec/sum_order.h, leaves in rank order, in the types of comm/sum_parts.h.
/// Memory  the result is of the given MemoryClass; buffers of what is sent and received are MemoryClass::workspace.
/// Errors  the transport's; TERN_CHECK: `local` has another type or another number of elements; layouts for another number of ranks.
Tensor redistribute(const Redistribution&, const Tensor& local, Comm&, MemoryClass, Arena&);

}  // namespace tern
