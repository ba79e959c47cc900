#pragma once
// Parameters as an update rule sees them: their kinds and sizes, without the model around them.

#include <cstdint>
#include <vector>

#include "spec/unit_cost.h"

namespace tern {

/// matrix: multiplies rows; table: an embedding, or the head's projection; vector: norms and biases.
enum class ParameterKind : uint8_t { matrix, table, vector };

/// The shape of a parameter's tensor, (rows, columns); a vector has one row.
struct ParameterForm {
  ParameterKind kind = ParameterKind::vector;
  int64_t rows = 1, columns = 0;
  int64_t elements() const { return rows * columns; }
  friend bool operator==(const ParameterForm&, const ParameterForm&) = default;
};

struct CountedForm {
  ParameterForm form;
  int64_t count = 1;
  bool expert = false;  // parameters of experts, which have fewer replicas
};
/// The trained parameters of a unit on one rank: its matrices and tables, and one vector for all else (one more for all
/// else of experts). Their elements add up to unit_cost's `trained`, those of experts to `expert_trained`.
std::vector<CountedForm> trained_forms(const Unit&, const CostQuery&);
/// The same, from the unit's cost.
std::vector<CountedForm> trained_forms(const Unit&, const CostQuery&, const UnitCost&);

/// How many blocks of kUpdateBlock elements (spec/update_rule.h) the trained parameters of a unit fill. No two parameters share a block. The
/// unit is not split over a tensor group.
int64_t trained_blocks(const Unit&);

}  // namespace tern
