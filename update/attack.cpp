// What attackers send, worked out by each rank for its own part of the vector: they know all that the others send.
#include <cmath>
#include <limits>

#include "base/rng.h"
#include "kernels/cpu/parallel.h"
#include "update/robust_parts.h"

namespace tern {
namespace {

constexpr double kInnerProduct = 0.1, kBitFlip = 10;

// Mean and standard deviation (of n) of the honest rows at an element.
struct Spread {
  double mean, deviation;
};
template <class T>
Spread spread_at(std::span<const std::span<T>> honest, size_t i) {
  double mean = 0, squares = 0;
  const auto n = static_cast<double>(honest.size());
  for (const std::span<T> row : honest) mean += static_cast<double>(row[i]) / n;
  for (const std::span<T> row : honest) squares += std::pow(static_cast<double>(row[i]) - mean, 2) / n;
  return {mean, std::sqrt(squares)};
}

}  // namespace

template <class T>
void attack_part(const RobustPart& part, std::span<const std::span<T>> rows) {
  const RobustConfig& c = part.config;
  const auto workers = static_cast<int>(rows.size());
  const std::span<const std::span<T>> honest = rows.first(rows.size() - static_cast<size_t>(c.attackers));
  const double z = c.attack == Attack::alie ? alie_deviations(workers, c.attackers) : 0;
  const auto sent = [&](int worker, size_t i) -> double {
    const auto element = static_cast<uint64_t>(part.elements.begin) + i;
    switch (c.attack) {
      case Attack::garbage:
        return random_normal({c.seed, hash_name("attack", static_cast<uint64_t>(part.step * workers + worker))},
                             element);
      case Attack::not_a_number:
        return std::numeric_limits<double>::quiet_NaN();
      case Attack::alie: {
        const Spread s = spread_at(honest, i);
        return s.mean - z * s.deviation;
      }
      case Attack::inner_product:
        return -kInnerProduct * spread_at(honest, i).mean;
      case Attack::bit_flip:
        return -kBitFlip * static_cast<double>(rows[static_cast<size_t>(worker)][i]);
      default:
        return static_cast<double>(rows[static_cast<size_t>(worker)][i]);
    }
  };
  if (c.attackers == 0) return;
  parallel_ranges(static_cast<int64_t>(rows[0].size()), 1024, 1, [&](int64_t begin, int64_t end) {
    for (int worker = workers - c.attackers; worker < workers; ++worker)
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
        rows[static_cast<size_t>(worker)][i] = static_cast<T>(sent(worker, i));
  });
}

template void attack_part(const RobustPart&, std::span<const std::span<float>>);
template void attack_part(const RobustPart&, std::span<const std::span<double>>);

}  // namespace tern
