#pragma once
// UPDATEs within the backward: each uses its layer's own gradients, which end with the layer's last UPDATE.

#include <optional>
#include <vector>

#include "exec/summands.h"

namespace tern {

/// Those of one run of one Program. NORM only adds up what they saw (norm_of_squares).
struct EarlyUpdates {
  const ExecuteInput& in;
  const CollectiveParts& parts;
  const Summands& summands;
  std::optional<UpdatePass> pass{};  // with the gradients of the unit at hand; none before the first UPDATE
  std::vector<double> squares{};     // of all gradients so far

  /// An UPDATE of one unit; without a loss nothing changes. Errors  diverged: a gradient that is not finite.
  void update(const Instruction&, bool has_loss);
};

}  // namespace tern
