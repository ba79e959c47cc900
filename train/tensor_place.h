#pragma once

namespace tern {

/// Of a group of ranks that share out each matrix (model/tensor_parts.h).
struct TensorPlace {
  int place = 0, ranks = 1;
};

}  // namespace tern
