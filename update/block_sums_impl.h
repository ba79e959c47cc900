#pragma once
// Sums over the blocks of parameters, for NORM and UPDATE. Blocks are added in ascending order, so neither ranks nor threads change a bit.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/comm.h"
#include "spec/update_rule.h"
#include "update/block_values.h"
#include "update/pass.h"
#include "update/rule.h"

namespace tern {

/// For each parameter `count` sums, each over the parameter's blocks. fill, comm: as for block_values.
std::vector<UpdateSumValues> sums_over_blocks(const UpdatePass&, BlockReaders, std::span<const size_t> parameters,
                                              int count, Comm*,
                                              const std::function<void(size_t, int64_t, double*)>& fill);
/// For each parameter the sums that the rule itself declares (UpdateSums).
std::vector<UpdateSumValues> rule_sums(const UpdatePass&, const UpdateNorm&, BlockReaders,
                                       std::span<const size_t> parameters, Comm*);
/// Whether the rule declares sums over what the argument names: over each parameter, or over the model.
bool sums_over(const UpdatePass&, UpdateSums::Over);

}  // namespace tern
