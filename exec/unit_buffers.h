#pragma once
// What a Program's buffers hold while it runs on one rank.

#include <map>
#include <utility>
#include <vector>

#include "model/unit.h"
#include "program/program.h"

namespace tern {

/// The buffers of the Program, by unit and micro-batch. `saved` and `left` live in one struct of the model's.
struct UnitBuffers {
  int num_units;
  std::vector<Tensor> output, gradient;
  Tensor remade;  // by the RECOMPUTE at work
  std::vector<UnitSaved> saved;
  std::map<std::pair<int, int>, std::vector<Tensor>> kept_sums;  // by unit and micro-batch; a tensor per parameter

  UnitBuffers(const ModelSpec&, const Program&);
  size_t at(int unit, int micro) const { return size_t(micro) * num_units + unit; }

  /// Frees a buffer; `with_saved`: the same instruction ends the unit's `saved` too.
  void free(const Buffer&, const Unit&, bool with_saved);
};

}  // namespace tern
