#pragma once
// redistribute: moves a tensor from one layout to another, as spec/redistribution.h says.

#include "comm/comm.h"
#include "spec/redistribution.h"

namespace tern {

/// Every rank gives what it holds under `from` and gets what it holds under `to`.
/// Shapes  local: local_shape(holding(from, rank)), as many elements count; the result: local_shape(holding(to, rank)).
/// Order   sums over partial axes: the tree of spec/sum_order.h, leaves in rank order, in the types of comm/sum_parts.h.
/// Memory  the result of the class given; what is sent, and summands that arrive, as workspace.
/// Errors  the transport's; TERN_CHECK: another type or count.
Tensor redistribute(const Redistribution&, const Tensor& local, Comm&, MemoryClass, Arena&);

}  // namespace tern
