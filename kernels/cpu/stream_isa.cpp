#include "kernels/cpu/stream_table.h"

#include "kernels/cpu/lanes_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

// Eight chains: enough to hide an addition's latency behind two loads a cycle.
float sum_of(int64_t count, const float* x) {
  constexpr int kChains = 8;
  Vec chain[kChains];
  for (Vec& c : chain) c = splat(0);
  int64_t i = 0;
  for (; i + kChains * kLanes <= count; i += kChains * kLanes)
    for (int c = 0; c < kChains; ++c) chain[c] = chain[c] + load(x + i + c * kLanes);
  for (; i < count; i += kLanes) {
    const int64_t n = count - i < kLanes ? count - i : kLanes;
    chain[0] = chain[0] + load(x + i, n);
  }
  for (int c = 1; c < kChains; ++c) chain[0] = chain[0] + chain[c];
  return sum(chain[0]);
}

}  // namespace

const StreamTable stream_table = {.sum = sum_of};

}  // namespace tern::TERN_ISA_NAMESPACE
