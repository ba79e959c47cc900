#pragma once
// The lowest held-out loss of a run, which --keep-best and --patience go by.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/io.h"

namespace tern {

struct BestEvaluation {
  int64_t step = -1;  // -1: there was none
  double loss = std::numeric_limits<double>::infinity();
  int64_t since = 0;  // evaluations after it, none of them lower

  /// The next evaluation. Returns whether it is the lowest so far; an equal one is not, nor a loss that is no number.
  bool take(int64_t at_step, double held_out_loss);
};

/// What a run's log says up to this step (the log goes with the checkpoint). Errors: bad_file: the log cannot be read.
BestEvaluation best_of_log(Io&, const std::string& logs, int64_t step);

}  // namespace tern
