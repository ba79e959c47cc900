#pragma once
// How far a search over plans goes before it stops with a gap: counts, bytes, and the seconds that a command gives it.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tern {

/// The values of --effort.
enum class SearchEffort : uint8_t { quick, normal, thorough };

/// The limits of one effort. label_bytes is so low that the process stays below memory_bytes.
struct EffortLimits {
  std::string_view name;
  double seconds;        // of `tern plan` without --max-seconds; the library's requests have no limit of their own
  int64_t memory_bytes;  // that the whole process may take on one thread
  int64_t label_bytes;   // of all partial plans that are in memory at the same time
  int64_t labels;        // partial plans in one round of one search
  std::array<int64_t, 3> simulations;  // of one search in the first, second, third pass over open choices; −1: no pass
  int relaxation_rounds;
  int64_t operations;  // that the local improvement of one plan may simulate
};

inline constexpr std::array kEffortLimits{
    EffortLimits{"quick", 10, 1'000'000'000, 128 << 20, 200'000, {0, 200, -1}, 20, 50'000'000},
    EffortLimits{"normal", 60, 1'000'000'000, 384 << 20, 2'000'000, {0, 2000, -1}, 40, 500'000'000},
    EffortLimits{"thorough", 3600, 4'000'000'000, 2048LL << 20, 20'000'000, {0, 2000, 20'000}, 160, 10'000'000'000},
};
/// The limits of an effort. effort_from_name: the effort of that name, if there is one.
inline const EffortLimits& limits_of(SearchEffort e) { return kEffortLimits[static_cast<size_t>(e)]; }
inline std::optional<SearchEffort> effort_from_name(std::string_view name) {
  for (size_t i = 0; i < kEffortLimits.size(); ++i)
    if (kEffortLimits[i].name == name) return static_cast<SearchEffort>(i);
  return std::nullopt;
}

}  // namespace tern
