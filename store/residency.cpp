#include "store/residency.h"

#include <algorithm>

#include "base/error.h"

namespace tern {

std::vector<bool> choose_resident(std::span<const PassExtent> extents, int64_t room) {
  int64_t all = 0;
  for (const PassExtent& e : extents) all += e.kept_bytes;
  std::vector<bool> stays(extents.size(), false);
  if (room <= 0) return stays;
  if (all <= room) return std::vector<bool>(extents.size(), true);
  // Bresenham's line over the bytes: an extent stays when the share that should be resident so far asks for it. The
  // first one streams, as it is read while the pass before ends.
  int64_t kept = 0;
  double line = 0;
  const double share = static_cast<double>(room) / static_cast<double>(all);
  for (size_t i = 0; i < extents.size(); ++i) {
    const int64_t bytes = extents[i].kept_bytes;
    line += share * static_cast<double>(bytes);
    if (static_cast<double>(kept + bytes) > line + 0.5 || kept + bytes > room) continue;
    stays[i] = true;
    kept += bytes;
  }
  // What the line left over: the largest that still fits, again and again.
  while (true) {
    size_t best = extents.size();
    for (size_t i = 0; i < extents.size(); ++i)
      if (!stays[i] && kept + extents[i].kept_bytes <= room &&
          (best == extents.size() || extents[i].kept_bytes > extents[best].kept_bytes))
        best = i;
    if (best == extents.size()) return stays;
    stays[best] = true;
    kept += extents[best].kept_bytes;
  }
}

int64_t streamed_bytes(std::span<const PassExtent> extents, const std::vector<bool>& stays) {
  TERN_CHECK(stays.size() == extents.size(), "streamed_bytes: {} of {}", stays.size(), extents.size());
  int64_t bytes = 0;
  for (size_t i = 0; i < extents.size(); ++i)
    if (!stays[i]) bytes += extents[i].bytes;
  return bytes;
}

}  // namespace tern
