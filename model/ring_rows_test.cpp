#include "model/ring_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace tern {
namespace {

struct Share {
  std::map<std::pair<int64_t, int64_t>, int> pairs;  // query and key, as rows of the whole
  std::vector<int64_t> of_rank;                      // pairs
};

// Every query and key that meet on some rank.
Share meet(const std::vector<int64_t>& starts, int ranks, int64_t window) {
  Share share;
  for (int rank = 0; rank < ranks; ++rank) {
    int64_t& count = share.of_rank.emplace_back();
    for (int owner = 0; owner < ranks; ++owner)
      for (const size_t mine : {0, 1})
        for (const size_t theirs : {0, 1}) {
          const PartPlace queries{rows_in_ring(starts.back(), rank, ranks)[mine], 100};
          const PartPlace keys{rows_in_ring(starts.back(), owner, ranks)[theirs], 200};
          std::vector<AttentionPiece> pieces;
          add_pieces(starts, queries, keys, window, pieces);
          for (const AttentionPiece& p : pieces)
            for (int64_t i = 0; i < p.num_queries; ++i)
              for (int64_t j = 0; j < p.num_keys; ++j) {
                const int64_t apart = p.distance + i - j;
                if (apart < 0 || (window > 0 && apart >= window)) continue;
                ++count;
                ++share.pairs[{queries.rows.first + p.query_row - 100 + i, keys.rows.first + p.key_row - 200 + j}];
              }
        }
  }
  return share;
}

TEST(RingRows, EveryQueryMeetsEachKeyThatItSeesOnce) {
  const std::vector<std::vector<int64_t>> all{{0, 48}, {0, 24, 48}, {0, 1, 2, 31, 48}, {0, 0, 47, 47, 48}};
  for (const std::vector<int64_t>& starts : all)
    for (const int ranks : {1, 2, 3, 4, 6})
      for (const int64_t window : {0, 1, 5, 13}) {
        const Share got = meet(starts, ranks, window);
        size_t wanted = 0;
        for (size_t s = 0; s + 1 < starts.size(); ++s)
          for (int64_t q = starts[s]; q < starts[s + 1]; ++q)
            for (int64_t k = starts[s]; k <= q; ++k) {
              if (window > 0 && q - k >= window) continue;
              ++wanted;
              const auto at = got.pairs.find({q, k});
              EXPECT_TRUE(at != got.pairs.end() && at->second == 1) << q << " and " << k;
            }
        EXPECT_EQ(got.pairs.size(), wanted);
      }
}

// Whatever the number of sequences of one length.
TEST(RingRows, RanksHaveEquallyManyPairs) {
  for (const int64_t sequences : {1, 2, 3, 4, 6})
    for (const int ranks : {2, 3, 4}) {
      std::vector<int64_t> starts;
      for (int64_t s = 0; s <= sequences; ++s) starts.push_back(s * 24);
      const std::vector<int64_t> pairs = meet(starts, ranks, 0).of_rank;
      EXPECT_EQ(*std::ranges::max_element(pairs), *std::ranges::min_element(pairs)) << sequences << " on " << ranks;
    }
}

}  // namespace
}  // namespace tern
