#pragma once
// Where a rank stands in its tensor group.

namespace tern {

/// A rank's place in a group of ranks that share out each matrix (model/tensor_parts.h).
struct TensorPlace {
  int place = 0, ranks = 1;
};

/// Of a group of ranks that share out the rows of each micro-batch (model/context_ranks.h).
struct ContextPlace {
  int place = 0, ranks = 1;
};

}  // namespace tern
