#include "comm/rank_spots.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace tern {
namespace {

TEST(RankSpots, TwoRanksAreTheSameOneOfAMachine) {
  EXPECT_EQ(doubled_spot(std::vector<RankSpot>{}), "");
  EXPECT_EQ(doubled_spot(std::vector<RankSpot>{{"a", 0}, {"a", 1}, {"b", 0}, {"b", 1}}), "");
  const std::string fault = doubled_spot(std::vector<RankSpot>{{"a", 0}, {"b", 1}, {"b", 0}, {"b", 1}});
  EXPECT_EQ(fault.find("ranks 1 and 3 are on one machine and have the same local rank 1 (LOCAL_RANK;"), 0u) << fault;
}

TEST(RankSpots, AreToldThroughTheStore) {
  StoreServer server({"127.0.0.1", 0}, {.size = 3, .token = "t", .silence_s = 10});
  std::vector<std::unique_ptr<StoreClient>> clients;
  std::vector<LaunchedRank> ranks;
  for (int r = 0; r < 3; ++r) {
    clients.push_back(std::make_unique<StoreClient>(server.address(),
                                                    StoreRank{.rank = r, .size = 3, .token = "t", .silence_s = 10}));
    ranks.push_back({.rank = r, .size = 3, .local_rank = r, .local_size = 3});
    tell_spot(*clients.back(), ranks.back());
  }
  EXPECT_EQ(fault_of_spots(*clients[0], ranks[0]), "");
  ranks[2].local_rank = 1;
  tell_spot(*clients[2], ranks[2]);
  // "told" comes behind rank 2's second spot, so the store has that spot once another rank has got "told".
  clients[2]->set("told", "");
  clients[0]->get("told", "rank 2's second word");
  StoreClient& asks_anew = *clients[1];  // client 0 keeps what it got for a key, here rank 2's first spot
  EXPECT_EQ(fault_of_spots(asks_anew, ranks[1]).find("ranks 1 and 2 are on one machine"), 0u);
}

}  // namespace
}  // namespace tern
