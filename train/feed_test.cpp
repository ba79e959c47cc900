#include "train/feed.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "formats/data/token_data_testing.h"
#include "train/run_checks.h"

namespace tern {
namespace {

// Tokens 0, 1, 2, … in documents of the given lengths; loss mask if given.
class FeedTest : public testing::Test {
 protected:
  FeedTest()
      : root_((std::filesystem::temp_directory_path() / fmt::format("tern-feed-{}", real_clock().wall_ns())).string()) {
    make_dirs(real_io(), root_);
  }
  ~FeedTest() override { remove_all(real_io(), root_); }

  TokenData data(const std::vector<int64_t>& lengths, const std::vector<uint8_t>& loss = {}) {
    std::vector<int64_t> documents = {0};
    for (const int64_t n : lengths) documents.push_back(documents.back() + n);
    std::vector<uint16_t> tokens(static_cast<size_t>(documents.back()));
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i);
    const std::string path = fmt::format("{}/{}.tokens", root_, count_++);
    write_token_file(path, tokens, documents, 5000, loss);
    return TokenData::open(path);
  }
  Feed feed(const std::vector<int64_t>& lengths, FeedConfig config, const std::vector<uint8_t>& loss = {}) {
    return Feed(data(lengths, loss), config, "test");
  }

  std::string root_;
  int count_ = 0;
};

std::vector<int64_t> one(int64_t window) { return {window}; }

TEST_F(FeedTest, WindowsTileTheTokensAndSayWhatIsLeftOver) {
  const Feed f = feed({100}, {.seq = 16, .shuffle = false});
  EXPECT_EQ(f.num_windows(), 6);  // 96 inputs and one more target
  EXPECT_EQ(f.left_over(), 3);
  const MicroBatch b = f.windows(one(1), nullptr);
  EXPECT_EQ(b.tokens.front(), 16);
  EXPECT_EQ(b.targets.back(), 32);
  EXPECT_EQ(b.rows.starts, (std::vector<int64_t>{0, 16}));
  EXPECT_EQ(b.num_targets(), 16);
}

TEST_F(FeedTest, TheEndsOfManyDocumentsAreCountedAndHaveToFit) {
  constexpr int64_t kDocuments = 150'000;
  std::vector<int64_t> documents(kDocuments + 1);
  std::iota(documents.begin(), documents.end(), int64_t{0});  // a token each
  write_token_file(root_ + "/many.tokens", std::vector<uint16_t>(kDocuments, 1), documents, 5000, {});
  const Feed many(TokenData::open(root_ + "/many.tokens"), {.seq = 16}, "test");
  constexpr int64_t kBytes = 2 * 8 * (kDocuments + 1);  // of two ranks
  PredictedMemory predicted{.weights = 1000, .data = 500, .process = 7};
  const int64_t before = predicted.total();
  count_documents(many, 2, before - 7 + kBytes, predicted);
  EXPECT_EQ(predicted.total(), before + kBytes);
  PredictedMemory other{.weights = 1000, .data = 500, .process = 7};
  try {
    count_documents(many, 2, before - 7 + kBytes - 1, other);
    FAIL() << "must be refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::does_not_fit);
    EXPECT_NE(std::string(e.what()).find("the ends of 150,000 documents take 2.29 MiB"), std::string::npos) << e.what();
  }
  PredictedMemory few{.weights = 1000};
  count_documents(feed({100}, {.seq = 16}), 2, 0, few);
  EXPECT_EQ(few.data, 0) << "within what the program takes";
}

TEST_F(FeedTest, ExactlyOneWindowIsEnoughOneTokenLessIsAnError) {
  EXPECT_EQ(feed({17}, {.seq = 16}).num_windows(), 1);
  try {
    feed({16}, {.seq = 16});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("test: 16 tokens, one window takes 17"), std::string::npos) << e.what();
  }
}

// Documents [0,5) [5,6) [6,16) [16,33): borders inside a window, at its end, a document of one token.
TEST_F(FeedTest, DocumentsStartSequencesAndNoTargetCrossesABorder) {
  const Feed f = feed({5, 1, 10, 17}, {.seq = 16, .shuffle = false});
  const MicroBatch b = f.windows(one(0), nullptr);
  EXPECT_EQ(b.rows.starts, (std::vector<int64_t>{0, 5, 6, 16}));
  EXPECT_EQ(b.rows.positions, (std::vector<int32_t>{0, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(b.targets, (std::vector<int32_t>{1, 2, 3, 4, -1, -1, 7, 8, 9, 10, 11, 12, 13, 14, 15, -1}));
  const MicroBatch next = f.windows(one(1), nullptr);
  EXPECT_EQ(next.rows.starts, (std::vector<int64_t>{0, 16}));
  EXPECT_EQ(next.targets.front(), 17);
}

TEST_F(FeedTest, TheLossMaskIsOfThePredictedToken) {
  std::vector<uint8_t> loss(33, 0);
  loss[4] = loss[5] = 1;
  const MicroBatch b = feed({33}, {.seq = 16, .shuffle = false}, loss).windows(one(0), nullptr);
  EXPECT_EQ(b.num_targets(), 2);
  EXPECT_EQ(b.targets[3], 4);
  EXPECT_EQ(b.targets[4], 5);
  EXPECT_EQ(b.targets[5], -1);
}

TEST_F(FeedTest, LossTargetsOfAllWindowsAreCounted) {
  const std::vector<std::vector<int64_t>> documents = {{100}, {5, 1, 10, 17}, {16, 16, 1}, {1, 1, 1, 30, 20}};
  for (const auto& lengths : documents)
    for (const int every : {0, 1, 2, 7}) {  // 0: no mask
      int64_t total = 0;
      for (const int64_t n : lengths) total += n;
      std::vector<uint8_t> loss(every == 0 ? 0 : static_cast<size_t>(total));
      for (size_t i = 0; i < loss.size(); ++i) loss[i] = i % static_cast<size_t>(every) == 0;
      const Feed f = feed(lengths, {.seq = 16, .shuffle = false}, loss);
      int64_t targets = 0;
      for (int64_t w = 0; w < f.num_windows(); ++w) targets += f.windows(one(w), nullptr).num_targets();
      EXPECT_EQ(f.num_loss_targets(), targets) << total << " tokens, mask of every " << every;
    }
}

TEST_F(FeedTest, AnEpochIsAPermutationAndEpochsAndSeedsDiffer) {
  const Feed a = feed({1601}, {.seq = 16, .seed = 1}), b = feed({1601}, {.seq = 16, .seed = 2});
  const auto epoch = [](const Feed& f, uint64_t e) {
    std::vector<int64_t> order;
    for (uint64_t i = 0; i < 100; ++i) order.push_back(f.window_of(e * 100 + i));
    return order;
  };
  for (const uint64_t e : {0, 1, 7}) {
    const auto order = epoch(a, e);
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 100u);
    EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  }
  EXPECT_NE(epoch(a, 0), epoch(a, 1));
  EXPECT_NE(epoch(a, 0), epoch(b, 0));
}

TEST_F(FeedTest, SamplesDoNotDependOnTheMicroBatch) {
  const Feed f = feed({300, 50, 451}, {.seq = 16, .seed = 3});
  const auto flat = [&](int64_t micro) {
    std::vector<int32_t> all;
    for (const MicroBatch& b : f.samples(45, 12, micro, nullptr)) {
      EXPECT_EQ(b.tokens.size() % 16, 0u);
      all.insert(all.end(), b.tokens.begin(), b.tokens.end());
      all.insert(all.end(), b.targets.begin(), b.targets.end());
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  EXPECT_EQ(f.samples(45, 12, 5, nullptr).size(), 3u);
  EXPECT_EQ(flat(12), flat(5));
  EXPECT_EQ(flat(12), flat(1));
}

TEST_F(FeedTest, CountsAttendedPairsBySequence) {
  const MicroBatch b = feed({5, 1, 10, 17}, {.seq = 16, .shuffle = false}).windows(one(0), nullptr);
  EXPECT_EQ(attended_pairs_of(b, 0), 15 + 1 + 55);
  EXPECT_EQ(attended_pairs_of(b, 2), 9 + 1 + 19);
}

// --- mixtures ---

TEST_F(FeedTest, EachSourceOfAMixtureHasItsShareOfEveryBlockAndAllOfItsWindowsBeforeAnyComesAgain) {
  for (const bool shuffle : {true, false}) {
    SCOPED_TRACE(shuffle);
    const Feed f({{.data = data({161}), .share = 0.7, .place = "a"},
                  {.data = data({321}), .share = 0.2, .place = "b"},
                  {.data = data({49}), .share = 0.1, .place = "c"}},
                 {.seq = 16, .seed = 3, .shuffle = shuffle});
    ASSERT_EQ(f.num_windows(), 10 + 20 + 3);
    EXPECT_EQ(f.num_tokens(), 161 + 321 + 49);
    std::vector<std::vector<int64_t>> drawn(3);
    for (uint64_t s = 0; s < 2 * kMixtureBlock; ++s) {
      const int64_t window = f.window_of(s);
      const size_t source = window < 10 ? 0 : window < 30 ? 1 : 2;
      drawn[source].push_back(window - f.sources()[source].first_window);
      if (s + 1 != kMixtureBlock) continue;
      EXPECT_EQ(drawn[0].size(), 2867u);  // 2867.2, 819.2, 409.6: the last is rounded up
      EXPECT_EQ(drawn[1].size(), 819u);
      EXPECT_EQ(drawn[2].size(), 410u);
    }
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(drawn[k].size(), 2 * static_cast<size_t>(f.sources()[k].of_block));
      const auto n = static_cast<size_t>(f.sources()[k].num_windows);
      for (size_t epoch = 0; (epoch + 1) * n <= drawn[k].size(); ++epoch) {
        std::set<int64_t> seen;
        for (size_t i = 0; i < n; ++i) {
          seen.insert(drawn[k][epoch * n + i]);
          if (!shuffle) { EXPECT_EQ(drawn[k][epoch * n + i], static_cast<int64_t>(i)); }
        }
        EXPECT_EQ(seen.size(), n) << "source " << k << ", epoch " << epoch;
      }
    }
    // Scattered, not one source after the other.
    std::set<size_t> first;
    for (uint64_t s = 0; s < 64; ++s) first.insert(f.window_of(s) < 10 ? 0u : f.window_of(s) < 30 ? 1u : 2u);
    EXPECT_EQ(first.size(), 3u);
  }
}

TEST_F(FeedTest, AWindowOfAMixtureIsItsSourcesOwn) {
  const TokenData second = data({40, 60});
  const Feed f({{.data = data({33}), .share = 0.5, .place = "a"}, {.data = second, .share = 0.5, .place = "b"}},
               {.seq = 16});
  const Feed alone(second, {.seq = 16}, "b");
  for (int64_t w = 0; w < alone.num_windows(); ++w) {
    const MicroBatch want = alone.windows(one(w), nullptr),
                     got = f.windows(one(f.sources()[1].first_window + w), nullptr);
    EXPECT_EQ(got.tokens, want.tokens);
    EXPECT_EQ(got.targets, want.targets);
    EXPECT_EQ(got.rows.starts, want.rows.starts);
  }
  EXPECT_EQ(f.num_loss_targets(), alone.num_loss_targets() + Feed(data({33}), {.seq = 16}, "a").num_loss_targets());
}

TEST_F(FeedTest, AShareOfNoSampleIsRefusedByName) {
  try {
    const Feed f({{.data = data({33}), .share = 0.99999, .place = "a"},
                  {.data = data({33}), .share = 0.00001, .place = "tiny.txt"}},
                 {.seq = 16});
    FAIL() << "taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("tiny.txt: a share of 1e-05"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tern
