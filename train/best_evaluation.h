#pragma once
// The lowest held-out loss of a run. --keep-best and --patience decide by it.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/io.h"

namespace tern {

/// The best evaluation so far.
struct BestEvaluation {
  int64_t step = -1;                                      // the step just before it; -1: there was no evaluation
  double loss = std::numeric_limits<double>::infinity();  // nats per target token
  int64_t since = 0;                                      // the number of evaluations after it; none of them was lower

  /// Takes in the next evaluation. Returns whether its loss is lower than all before; an equal loss and NaN are not.
  bool take(int64_t at_step, double held_out_loss);
};

/// The best evaluation, up to this step, in a run's log, which is in the directory `logs`. Errors: bad_file: the log cannot be read.
BestEvaluation best_of_log(Io&, const std::string& logs, int64_t step);

}  // namespace tern
