#include "quantize/nf4_offset.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace tern {
namespace {

constexpr size_t kMostInBlock = 64;
constexpr int kSteps = 100;                         // on each side
constexpr double kReach = 0.1 / 1.848130959757373;  // of the largest magnitude; the quantile at 0.9677083

// n·log2(n) in fixed point, so that sums of the same counts are equal in any order.
std::array<int64_t, kMostInBlock + 1> make_products() {
  std::array<int64_t, kMostInBlock + 1> products{};
  for (size_t n = 2; n <= kMostInBlock; ++n) {
    const auto count = static_cast<double>(n);
    products[n] = std::llround(std::ldexp(count * std::log2(count), 40));
  }
  return products;
}

}  // namespace

float offset_of_most_information(std::span<const float> x, std::span<const float> middles) {
  static const std::array<int64_t, kMostInBlock + 1> kProducts = make_products();
  TERN_CHECK(!x.empty() && x.size() <= kMostInBlock, "a block of {}", x.size());
  std::array<float, kMostInBlock> numbers;
  const auto end = std::copy(x.begin(), x.end(), numbers.begin());
  std::sort(numbers.begin(), end, [](float a, float b) { return std::isnan(b) ? !std::isnan(a) : a < b; });
  const std::span<const float> sorted(numbers.data(), x.size());
  const float median = sorted[(x.size() - 1) / 2];
  const auto largest_beyond = [&](float at) {
    return std::max(std::fabs(sorted.front() - at), std::fabs(sorted.back() - at));
  };
  const auto reach = static_cast<double>(largest_beyond(median));
  float best = median;
  int64_t least = INT64_MAX;  // Σ n·log2(n) of the codes' counts falls as their entropy rises
  for (int step = -kSteps; step <= kSteps; ++step) {
    const auto offset = static_cast<float>(static_cast<double>(median) + step * (kReach / kSteps) * reach);
    const float inverse = 1 / std::max(largest_beyond(offset), 1e-38f);
    int64_t products = 0;
    auto begin = sorted.begin();
    for (const float middle : middles) {
      const auto next =
          std::partition_point(begin, sorted.end(), [&](float v) { return (v - offset) * inverse <= middle; });
      products += kProducts[static_cast<size_t>(next - begin)], begin = next;
    }
    products += kProducts[static_cast<size_t>(sorted.end() - begin)];
    if (products < least) least = products, best = offset;
  }
  return best;
}

}  // namespace tern
