#pragma once
// For tests: the cluster that runs are priced on.

#include "hardware/cluster.h"
#include "hardware/machines.h"

namespace tern {

inline const Cluster& a100() {
  static const Cluster c = find_cluster("a100-80g");
  return c;
}

}  // namespace tern
