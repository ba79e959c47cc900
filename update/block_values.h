#pragma once
// Numbers for each block of parameters that ranks share out. The rank that keeps a block computes its numbers; all readers receive them.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/comm.h"
#include "update/shares.h"

namespace tern {

/// Which ranks receive the values of all blocks of a parameter: those that share the parameter out, or all ranks of the world.
enum class BlockReaders : uint8_t { replicas, world };
/// Returns `count` doubles for each block of kUpdateBlock elements of the parameters, parameter after parameter. This rank's values
/// come from fill(parameter, the block's number within this rank's interval, where to write `count` doubles); the others arrive over
/// `comm`, whose ranks are the readers.
/// Errors  TERN_CHECK: other ranks have values, and `comm` is null.
std::vector<double> block_values(const Shares&, BlockReaders, std::span<const size_t> parameters,
                                 std::span<const int64_t> elements, int count, Comm* comm,
                                 const std::function<void(size_t, int64_t, double*)>& fill);
/// Bytes that each of `ranks` readers contributes to the exchange in block_values: the argument of all_gather_bytes.
std::vector<int64_t> block_value_bytes(const Shares&, BlockReaders, std::span<const size_t> parameters, int count,
                                       int ranks);

}  // namespace tern
