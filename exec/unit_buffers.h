#pragma once
// What a Program's buffers hold while it runs on one rank.

#include <map>
#include <utility>
#include <vector>

#include "model/unit.h"
#include "program/program.h"

namespace tern {

/// The buffers of one run of one Program, by unit and micro-batch (at). The model keeps `saved` and `left` together, in UnitSaved.
struct UnitBuffers {
  int num_units;
  std::vector<Tensor> output, gradient;                          // empty where no such buffer is alive
  Tensor remade;                                                 // the output of the RECOMPUTE that runs
  std::vector<UnitSaved> saved;                                  // `saved` and `left` of a unit
  std::map<std::pair<int, int>, std::vector<Tensor>> kept_sums;  // by unit and micro-batch; a tensor per parameter

  /// No buffer is alive yet.
  UnitBuffers(const ModelSpec&, const Program&);
  size_t at(int unit, int micro) const { return size_t(micro) * num_units + unit; }

  /// Frees a buffer. `with_saved`: the same instruction also frees the unit's `saved`, so its `left` needs no freeing.
  /// Errors  TERN_CHECK: a kind of buffer that this executor does not have.
  void free(const Buffer&, const Unit&, bool with_saved);
};

}  // namespace tern
