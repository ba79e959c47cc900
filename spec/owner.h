#pragma once
// deal: which rank keeps which part of a unit's trained parameters if ranks shard training state (ZeRO). Update, norm,
// checkpoint, memory forecasts and sizes of messages all follow the same deal.

#include <cstdint>
#include <span>
#include <vector>

#include "spec/layout.h"
#include "spec/update_rule.h"

namespace tern {

/// Elements of one parameter that a rank keeps: whole blocks of kUpdateBlock; a parameter's last block may be shorter.
/// The norm sums the same blocks, so all ranks get the norm that one rank with all blocks would get, bit for bit.
struct OwnedInterval {
  int parameter;  // in the order given
  int rank;
  Interval elements;
  friend bool operator==(const OwnedInterval&, const OwnedInterval&) = default;
};

/// Who keeps what of a unit's dense parameters, or of its experts. The list is sorted by parameter. A rank has at most
/// one interval of a parameter.
/// Deal   Matrices and tables lie end to end in blocks, largest first (ties: more rows first, then as given); ranks get
///        runs of blocks whose lengths differ by one at most. A parameter that the rule takes whole (UpdateGrain)
///        belongs to the rank in whose run its middle block lies. Vectors belong to the last rank. So
///        shares stay the same if a unit's vectors are counted as one vector (trained_forms, spec/parameter_form.h).
std::vector<OwnedInterval> deal(std::span<const ParameterForm>, UpdateRule, int ranks);

/// The most that any rank keeps of a unit: elements, and bytes of the rule's state (weights of `dtype`).
struct WidestShare {
  int64_t elements = 0, state_bytes = 0;
  WidestShare& operator+=(const WidestShare& o) { return elements += o.elements, state_bytes += o.state_bytes, *this; }
};
/// The widest share of the experts' forms (`experts`: true) or of the other forms (false).
WidestShare widest_share(std::span<const CountedForm>, bool experts, const UpdateConfig&, DType dtype, int64_t ranks);
/// Bytes of the rule's state for an interval of a parameter.
int64_t state_bytes(const UpdateConfig&, DType dtype, const ParameterForm&, const Interval&);

}  // namespace tern
