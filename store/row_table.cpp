#include "store/row_table.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/region_errors.h"
#include "store/read_extent.h"

namespace tern {

int64_t read_rows(const RowTable& rows, std::span<const int32_t> ids, std::span<std::byte> into) {
  const int64_t row_bytes = rows.row_bytes, alignment = rows.files->alignment();
  const auto count = static_cast<int64_t>(ids.size()), room = room_for(row_bytes, alignment);
  TERN_CHECK(static_cast<int64_t>(into.size()) == count * row_bytes, "read_rows: {} bytes for {} rows of {}",
             into.size(), count, row_bytes);
  for (const int32_t id : ids)
    TERN_CHECK(0 <= id && (id + 1) * row_bytes <= rows.table.bytes, "read_rows: row {} of {}", id,
               rows.table.bytes / row_bytes);
  std::atomic<int64_t> read = 0;
  RegionErrors errors;
#pragma omp parallel if (count > 1)
  {
    const std::unique_ptr<std::byte, decltype(&std::free)> blocks(
        static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(room))),
        &std::free);
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < count; ++i)
      errors.guard([&] {
        const Extent row{rows.table.file, rows.table.offset + ids[static_cast<size_t>(i)] * row_bytes, row_bytes};
        const ReadExtent got = read_extent(*rows.files, row, {blocks.get(), static_cast<size_t>(room)});
        std::copy(got.bytes.begin(), got.bytes.end(), into.begin() + i * row_bytes);
        read += got.read;
      });
  }
  errors.rethrow();
  return read;
}

}  // namespace tern
