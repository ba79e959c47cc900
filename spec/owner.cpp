#include "spec/owner.h"

#include <algorithm>

#include "base/error.h"

namespace tern {
namespace {

int64_t blocks_of(int64_t elements) { return (elements + kUpdateBlock - 1) / kUpdateBlock; }

int64_t blocks_of(std::span<const int64_t> elements) {
  int64_t blocks = 0;
  for (const int64_t n : elements) blocks += blocks_of(n);
  return blocks;
}

}  // namespace

std::vector<OwnedInterval> owned_intervals(std::span<const int64_t> elements, int rank, int ranks) {
  const Interval mine = part_of(blocks_of(elements), rank, ranks);
  std::vector<OwnedInterval> owned;
  int64_t before = 0;  // blocks of earlier parameters
  for (size_t p = 0; p < elements.size(); ++p) {
    const int64_t blocks = blocks_of(elements[p]);
    const int64_t first = std::clamp<int64_t>(mine.begin - before, 0, blocks),
                  end = std::clamp<int64_t>(mine.end - before, 0, blocks);
    if (first < end)
      owned.push_back({static_cast<int>(p), {first * kUpdateBlock, std::min(end * kUpdateBlock, elements[p])}});
    before += blocks;
  }
  return owned;
}

int owner(std::span<const int64_t> elements, int ranks, int parameter, int64_t element) {
  TERN_CHECK(parameter >= 0 && parameter < static_cast<int>(elements.size()) && element >= 0 &&
                 element < elements[static_cast<size_t>(parameter)],
             "owner: element {} of parameter {}", element, parameter);
  const int64_t block = blocks_of(elements.first(static_cast<size_t>(parameter))) + element / kUpdateBlock;
  const int64_t blocks = blocks_of(elements);
  // The last rank whose part begins at or before it.
  return static_cast<int>((static_cast<__int128>(block + 1) * ranks - 1) / blocks);
}

}  // namespace tern
