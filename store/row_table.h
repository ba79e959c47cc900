#pragma once
// Single rows of a table that stays in its file: the embeddings of the tokens at hand.

#include <cstdint>
#include <span>

#include "store/block_files.h"
#include "store/extent.h"

namespace tern {

/// Rows of `row_bytes` bytes, one behind the other.
struct RowTable {
  BlockFiles* files = nullptr;  // outlives it
  Extent table;
  int64_t row_bytes = 0;
};

/// Reads the rows `ids` into `into` (ids, row_bytes), one after the other. Reads run in parallel on the calling thread's team.
/// Returns the bytes read from the disk. Errors: those of read_extent; TERN_CHECK: a row that is not there.
int64_t read_rows(const RowTable&, std::span<const int32_t> ids, std::span<std::byte> into);

}  // namespace tern
