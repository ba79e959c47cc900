#pragma once
// The samples of a micro-batch: all of them, or the part of one rank of a context group.

#include <cstdint>
#include <optional>
#include <vector>

#include "model/unit.h"

namespace tern {

/// T tokens of one or more sequences, laid end to end, with their targets. A MicroBatch can be moved but not copied, as
/// `rows.tokens` looks into `tokens`.
struct MicroBatch {
  MicroBatch() = default;
  /// `tokens` and `targets` have T elements each; `starts` as make_rows (model/rows.h) takes them.
  MicroBatch(std::vector<int32_t> tokens, std::vector<int64_t> starts, std::vector<int32_t> targets, const RopeTable*);
  MicroBatch(MicroBatch&&) = default;
  MicroBatch& operator=(MicroBatch&&) = default;

  std::vector<int32_t> tokens;   // (T)
  std::vector<int32_t> targets;  // (T); a negative target has no loss
  Rows rows;                     // what the model's functions read of the tokens
  // The first row's number in the step's batch; dropout's masks follow from these numbers (DropoutPlace)
  int64_t first_row = 0;
  int64_t gap = 0;                        // added to the number of each row from T/2 on; 0 except in a ring_part
  std::optional<double> loss_scale = {};  // if set, replaces ExecuteInput::loss_scale
  int64_t num_targets() const;            // targets that have a loss
};

/// The rows of a micro-batch that belong to rank `index` of a context group of `ranks` ranks. Each rank has equally many
/// consecutive rows, in the order of ranks.
/// Errors  TERN_CHECK: the number of rows is not a multiple of `ranks`.
MicroBatch context_part(const MicroBatch&, int index, int ranks);
/// The rows of rank `index` of a context group that passes keys and values round a ring: the two parts of rows_in_ring (model/ring_rows.h).
MicroBatch ring_part(const MicroBatch&, int index, int ranks);

}  // namespace tern
