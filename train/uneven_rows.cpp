#include "train/uneven_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/units.h"

namespace tern {

std::optional<UnevenRows> uneven_rows(std::span<const RankRows> ranks) {
  UnevenRows all;
  for (size_t r = 0; r < ranks.size(); ++r) {
    all.most = std::max(all.most, ranks[r].most);
    all.bytes += ranks[r].bytes;
    if (ranks[r].more > all.more) all.more = ranks[r].more, all.rank = static_cast<int>(r);
  }
  if (all.more == 0) return std::nullopt;
  return all;
}

double sufficient_factor(double most) {
  constexpr double kRounded = 2 * std::numeric_limits<double>::epsilon();  // of a ratio of numbers of rows, times 100
  return std::ceil(most * 100 * (1 - kRounded)) / 100;
}

std::string describe_first(const UnevenRows& u, double factor) {
  return fmt::format(
      "in a pass {} of the experts of rank {} had no room in the predicted memory (--capacity-factor {}); {:.2f} would "
      "have had room. No row is dropped; all ranks took {} beside the prediction (said once; how much it "
      "became is said at the end)",
      counted(u.more, "row"), u.rank, factor, sufficient_factor(u.most), format_bytes(u.bytes));
}

std::string describe_all(const UnevenRows& u, double factor) {
  return fmt::format(
      "the experts of a rank got up to {:.2f} times an even share of rows; the predicted memory has room for "
      "{:.2f} (--capacity-factor), and {} more were taken",
      sufficient_factor(u.most), factor, format_bytes(u.bytes));
}

}  // namespace tern
