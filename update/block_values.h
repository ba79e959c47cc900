#pragma once
// Numbers for each block of parameters that ranks share out: the rank that keeps a block makes them, and all readers get them.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/comm.h"
#include "update/shares.h"

namespace tern {

/// Who gets the values of all blocks of a parameter: the ranks that share the parameter out, or the world.
enum class BlockReaders : uint8_t { replicas, world };
/// `count` doubles for each block of kUpdateBlock elements of the parameters, parameter after parameter. This rank's
/// come from fill(parameter, number of the block in this rank's interval, the `count` doubles to set), others over `comm`, whose ranks
/// are the readers.
/// Errors  TERN_CHECK: other ranks have values, and `comm` is null.
std::vector<double> block_values(const Shares&, BlockReaders, std::span<const size_t> parameters,
                                 std::span<const int64_t> elements, int count, Comm* comm,
                                 const std::function<void(size_t, int64_t, double*)>& fill);
/// Bytes that each of `ranks` readers contributes to that exchange: the argument of all_gather_bytes.
std::vector<int64_t> block_value_bytes(const Shares&, BlockReaders, std::span<const size_t> parameters, int count,
                                       int ranks);

}  // namespace tern
