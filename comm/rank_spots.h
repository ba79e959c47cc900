#pragma once
// On which machines the ranks of a run are, as they tell each other through the store.

#include <span>
#include <string>

#include "comm/launched_rank.h"
#include "comm/store.h"

namespace tern {

/// Where a rank is: `machine` is the same for all processes of one machine (or of one container with a host's name of its own).
struct RankSpot {
  std::string machine;
  int local_rank = 0;
};

/// Tells the store where this process is.
void tell_spot(StoreClient&, const LaunchedRank&);

/// For rank 0, when all have told it: what is wrong with the places of all ranks. Errors: those of StoreClient::get.
std::string fault_of_spots(StoreClient&, const LaunchedRank&);

/// Which two ranks (by place in the list) are the same one of a machine, in words for people; "": none.
std::string doubled_spot(std::span<const RankSpot>);

}  // namespace tern
