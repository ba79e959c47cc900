#include "store/uring_reads.h"

namespace tern {

int64_t bytes_without_gap(std::span<const int32_t> results, int64_t piece, int64_t last) {
  int64_t bytes = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] < 0) return bytes > 0 ? bytes : results[i];
    bytes += results[i];
    if (results[i] < (i + 1 == results.size() ? last : piece)) break;
  }
  return bytes;
}

}  // namespace tern
