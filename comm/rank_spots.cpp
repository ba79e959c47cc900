#include "comm/rank_spots.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>
#include <vector>

#include "base/io.h"

namespace tern {
namespace {

std::string key_of_spot(int rank) { return fmt::format("spots/{}", rank); }

// Machines may have one name, and containers of one machine have one boot.
std::string own_machine() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  constexpr const char* kBoot = "/proc/sys/kernel/random/boot_id";
  return fmt::format("{} {}", host, real_io().stat(kBoot) ? real_io().read(kBoot) : "");
}

}  // namespace

void tell_spot(StoreClient& store, const LaunchedRank& own) {
  store.set(key_of_spot(own.rank), fmt::format("{} {}", own.local_rank, own_machine()));
}

std::string fault_of_spots(StoreClient& store, const LaunchedRank& own) {
  std::vector<RankSpot> spots;
  for (int r = 0; r < own.size; ++r) {
    const std::string told = store.get(key_of_spot(r), fmt::format("where rank {} is", r));
    const size_t blank = told.find(' ');
    RankSpot& spot = spots.emplace_back();
    std::from_chars(told.data(), told.data() + std::min(blank, told.size()), spot.local_rank);
    if (blank != std::string::npos) spot.machine = told.substr(blank + 1);
  }
  return doubled_spot(spots);
}

std::string doubled_spot(std::span<const RankSpot> spots) {
  std::map<std::pair<std::string, int>, size_t> first;
  for (size_t r = 0; r < spots.size(); ++r) {
    const auto [there, is_new] = first.try_emplace({spots[r].machine, spots[r].local_rank}, r);
    if (!is_new)
      return fmt::format(
          "ranks {} and {} are on one machine and have the same local rank {} (LOCAL_RANK; srun: SLURM_LOCALID; "
          "mpirun: "
          "OMPI_COMM_WORLD_LOCAL_RANK); give each rank of a machine its own, from 0 on: cores and memory are shared "
          "out by "
          "them",
          there->second, r, spots[r].local_rank);
  }
  return "";
}

}  // namespace tern
