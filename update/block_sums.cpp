#include <algorithm>

#include "base/error.h"
#include "update/block_sums_impl.h"

namespace tern {

std::vector<UpdateSumValues> sums_over_blocks(const UpdatePass& pass, BlockReaders readers,
                                              std::span<const size_t> parameters, int count, Comm* comm,
                                              const std::function<void(size_t, int64_t, double*)>& fill) {
  std::vector<int64_t> elements;
  for (const size_t p : parameters) elements.push_back(pass.state.forms[p].elements());
  const std::vector<double> values = block_values(pass.state.shares, readers, parameters, elements, count, comm, fill);
  std::vector<UpdateSumValues> sums(parameters.size(), UpdateSumValues{});
  size_t at = 0;
  for (size_t i = 0; i < parameters.size(); ++i)
    for (int64_t left = elements[i]; left > 0; left -= kUpdateBlock)
      for (int k = 0; k < count; ++k) sums[i][static_cast<size_t>(k)] += values[at++];
  return sums;
}

std::vector<UpdateSumValues> rule_sums(const UpdatePass& pass, const UpdateNorm& norm, BlockReaders readers,
                                       std::span<const size_t> parameters, Comm* comm) {
  const int count = num_sums(pass.config);
  TERN_CHECK(!pass.state.master.empty(), "update: a state without parameters");
  const auto measure = functions_of(pass.config.rule).measure;
  return sums_over_blocks(pass, readers, parameters, count, comm, [&](size_t p, int64_t block, double* values) {
    const UpdateShard own = shard_of(pass, norm, p);
    const int64_t begin = block * kUpdateBlock, end = std::min(own.gradient.count(), begin + kUpdateBlock);
    const UpdateSumValues sums = measure(interval_of(own, begin, end));
    std::copy_n(sums.begin(), count, values);
  });
}

bool sums_over(const UpdatePass& pass, UpdateSums::Over over) {
  return num_sums(pass.config) > 0 && row_of(pass.config.rule).sums.over == over;
}

}  // namespace tern
