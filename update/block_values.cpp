#include "update/block_values.h"

#include "base/error.h"
#include "base/rounding.h"
#include "kernels/cpu/parallel.h"
#include "update/state.h"

namespace tern {
namespace {

const std::vector<RankInterval> kNoKeepers;

int64_t num_update_blocks(int64_t elements) { return ceil_div(elements, kUpdateBlock); }

const std::vector<RankInterval>& keepers_for(const Shares& shares, BlockReaders readers, size_t parameter) {
  if (readers == BlockReaders::world) return shares.keepers(parameter);
  return shares.is_shared(parameter) ? shares.owners[parameter] : kNoKeepers;
}

}  // namespace

std::vector<double> block_values(const Shares& shares, BlockReaders readers, std::span<const size_t> parameters,
                                 std::span<const int64_t> elements, int count, Comm* comm,
                                 const std::function<void(size_t, int64_t, double*)>& fill) {
  struct Block {
    size_t parameter;
    int64_t inside;  // of this rank's interval
    int64_t place;
  };
  std::vector<Block> own;
  RankParts parts(comm ? static_cast<size_t>(comm->size()) : 0);
  std::vector<double> values;
  bool exchanges = false;
  int64_t total = 0;
  for (const int64_t n : elements) total += num_update_blocks(n) * count;
  values.resize(static_cast<size_t>(total));
  int64_t at = 0;  // of the parameter's first block
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Interval mine = shares.mine(parameters[i], elements[i]);
    const int64_t first = mine.begin / kUpdateBlock, end = num_update_blocks(mine.end);
    for (int64_t b = first; b < end; ++b) own.push_back({parameters[i], b - first, at + b * count});
    for (const RankInterval& o : keepers_for(shares, readers, parameters[i])) {
      const int64_t first_block = o.elements.begin / kUpdateBlock,
                    blocks = num_update_blocks(o.elements.end) - first_block;
      exchanges = true;
      TERN_CHECK(static_cast<size_t>(o.rank) < parts.size(), "update: values of rank {} in a world of {}", o.rank,
                 parts.size());
      parts[static_cast<size_t>(o.rank)].push_back(
          Tensor::borrow(DType::f64, {blocks * count}, values.data() + at + first_block * count));
    }
    at += num_update_blocks(elements[i]) * count;
  }
  parallel_ranges(static_cast<int64_t>(own.size()), 1, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const Block& b = own[static_cast<size_t>(k)];
      fill(b.parameter, b.inside, values.data() + b.place);
    }
  });
  if (exchanges) comm->all_gather(parts);
  return values;
}

std::vector<int64_t> block_value_bytes(const Shares& shares, BlockReaders readers, std::span<const size_t> parameters,
                                       int count, int ranks) {
  std::vector<int64_t> bytes(static_cast<size_t>(ranks));
  for (const size_t p : parameters)
    for (const RankInterval& o : keepers_for(shares, readers, p))
      bytes[static_cast<size_t>(o.rank)] += (num_update_blocks(o.elements.end) - o.elements.begin / kUpdateBlock) *
                                            count * static_cast<int64_t>(sizeof(double));
  return bytes;
}

}  // namespace tern
