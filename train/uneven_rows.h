#pragma once
// What a run says of rows that came to a rank's experts and for which the predicted memory had no room (--capacity-factor).

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tern {

/// What a rank's passes have counted since the run began (RoutedRows).
struct RankRows {
  double most = 0;    // the most rows that this rank's experts got in a pass, as a multiple of an even share
  int64_t more = 0;   // the most rows in a pass for which this rank's experts had no room
  int64_t bytes = 0;  // the highest amount of memory taken beyond the prediction
};

/// The same for all ranks together.
struct UnevenRows {
  double most = 0;    // the highest of any rank
  int rank = 0;       // the rank with the most rows that had no room
  int64_t more = 0;   // the number of these rows
  int64_t bytes = 0;  // the sum over ranks
};
/// Nothing, if all rows had room.
std::optional<UnevenRows> uneven_rows(std::span<const RankRows>);

/// The least --capacity-factor, to two decimals, that has room for `most` times an even share.
double sufficient_factor(double most);

/// For people: describe_first when rows first had no room, describe_all at the end of the run. `factor`: TrainSettings::capacity_factor. Both
/// name sufficient_factor(most): with it as --capacity-factor these rows have room.
std::string describe_first(const UnevenRows&, double factor);
std::string describe_all(const UnevenRows&, double factor);

}  // namespace tern
