#pragma once
// Where a rank stands in its tensor group, in its context group and in its expert group.

namespace tern {

/// A rank's place among `ranks` ranks that share out each matrix (model/tensor_parts.h).
struct TensorPlace {
  int place = 0, ranks = 1;
};

/// A rank's place among `ranks` ranks that share out the rows of each micro-batch (model/context_ranks.h).
struct ContextPlace {
  int place = 0, ranks = 1;
  bool ring = false;  // whether their keys and values go round a ring
};

/// A rank's place among `ranks` replicas that share out the experts of each mixture (model/expert_ranks.h).
struct ExpertPlace {
  int place = 0, ranks = 1;
};

}  // namespace tern
