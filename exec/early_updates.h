#pragma once
// UPDATEs within the backward (--update-in-backward). Each reads its layer's `summand` (program/program.h).

#include <optional>
#include <vector>

#include "exec/summands.h"

namespace tern {

/// The early UPDATEs of one run of one Program. NORM then only adds up their `squares` (norm_of_squares).
struct EarlyUpdates {
  const ExecuteInput& in;
  const CollectiveParts& parts;
  const Summands& summands;
  std::optional<UpdatePass> pass{};  // `in.update` with the updated unit's gradients; none before the first UPDATE
  // By parameter: the sum of the squares of its gradient; 0 before the parameter's UPDATE
  std::vector<double> squares{};

  /// Runs the UPDATE of one unit. If no token has a loss, nothing changes. Errors  diverged: a gradient is not finite.
  void update(const Instruction&, bool has_loss);
};

}  // namespace tern
