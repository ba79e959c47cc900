// Images that pass through memory in parts: what was written is read again, nothing else is moved, and faults are told.
#include "store/image_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>

#include "base/bug.h"
#include "base/error.h"
#include "base/rounding.h"
#include "store/blocks_testing.h"
#include "store/scratch_testing.h"

namespace tern {
namespace {

const std::vector<int64_t> kImages = {640, 100, 1000, 64, 333, 1};

struct ImageRig {
  ImageRig(ScratchFile& file, std::vector<int64_t> images, const RingSettings& settings)
      : bytes(ImageRing::bytes_for(images, settings.slots, file.alignment())),
        memory(std::aligned_alloc(4096, static_cast<size_t>(round_up(std::max<int64_t>(bytes, 1), 4096))), &std::free),
        ring(file, std::move(images), settings, {static_cast<std::byte*>(memory.get()), static_cast<size_t>(bytes)}) {}
  int64_t bytes;
  std::unique_ptr<void, decltype(&std::free)> memory;
  ImageRing ring;
};

// Some blocks of an image of so many bytes.
std::vector<BlockRun> some_runs(int64_t bytes, std::mt19937& random) {
  std::vector<BlockRun> runs;
  for (int64_t at = 0; at < bytes; at += kTestBlock)
    if (random() % 3 != 0) runs.push_back({at, at + kTestBlock});
  return joined_runs(std::move(runs));
}

TEST(ImageRing, RunsAreJoined) {
  EXPECT_EQ(joined_runs({{64, 128}, {0, 64}, {256, 320}, {64, 192}, {5, 5}}),
            (std::vector<BlockRun>{{0, 192}, {256, 320}}));
  EXPECT_EQ(joined_runs({{0, 320}, {64, 128}, {128, 192}}), (std::vector<BlockRun>{{0, 320}}));
  EXPECT_EQ(bytes_of(std::vector<BlockRun>{{0, 192}, {256, 320}}), 256);
}

// Each move once, in the bytes that its pass was told, between its acquire and its settling.
TEST(ImageRing, RecordsItsMoves) {
  std::mt19937 random(3);
  for (const int slots : {1, 2, 6})
    for (const int threads : {1, 3}) {
      MemoryScratch file(ImageRing::file_bytes_for(kImages, kTestBlock), kTestBlock);
      ImageRig r(file, kImages, {.slots = slots, .threads = threads});
      r.ring.record(true);
      for (int64_t pass = 0; pass < 4; ++pass) {
        std::vector<ImageMoves> moves;
        for (const int64_t bytes : kImages) moves.push_back({some_runs(bytes, random), some_runs(bytes, random)});
        r.ring.begin(moves);
        for (int i = 0; i < r.ring.num_images(); ++i) r.ring.acquire(i), r.ring.release();
        r.ring.settle();
        std::vector<ImageCounts::Moved> moved(kImages.size());
        for (const ImageMove& m : r.ring.take_moves()) {
          EXPECT_EQ(m.pass, pass);
          EXPECT_LE(m.begin_ns, m.end_ns);
          int64_t& bytes = m.write ? moved[static_cast<size_t>(m.image)].written_bytes
                                   : moved[static_cast<size_t>(m.image)].read_bytes;
          EXPECT_EQ(bytes, 0);
          bytes = m.bytes;
        }
        for (size_t i = 0; i < moves.size(); ++i) {
          EXPECT_EQ(moved[i].read_bytes, bytes_of(moves[i].reads));
          EXPECT_EQ(moved[i].written_bytes, bytes_of(moves[i].writes));
        }
      }
    }
}

// What the file should hold of each image; passes read some blocks, write others.
struct ImageModel {
  std::vector<std::vector<std::byte>> images;
  std::mt19937 random;
  int64_t wrong = 0;
  std::vector<ImageCounts::Moved> moved = std::vector<ImageCounts::Moved>(kImages.size());
  explicit ImageModel(uint32_t seed) : random(seed) {
    for (const int64_t bytes : kImages) images.emplace_back(static_cast<size_t>(round_up(bytes, kTestBlock)));
  }
  // `until`: the image at which the pass is abandoned, while it is held.
  void pass(ImageRing& ring, int until = static_cast<int>(kImages.size())) {
    std::vector<ImageMoves> moves;
    for (const int64_t bytes : kImages) moves.push_back({some_runs(bytes, random), some_runs(bytes, random)});
    ring.begin(moves);
    for (int i = 0; i < static_cast<int>(kImages.size()); ++i) {
      const std::span<std::byte> lent = ring.acquire(i);
      EXPECT_EQ(std::ssize(lent), kImages[static_cast<size_t>(i)]);
      std::byte* at = lent.data();
      auto& image = images[static_cast<size_t>(i)];
      for (const BlockRun& run : moves[static_cast<size_t>(i)].reads)
        for (auto b = static_cast<size_t>(run.begin); b < static_cast<size_t>(run.end); ++b) wrong += at[b] != image[b];
      for (const BlockRun& run : moves[static_cast<size_t>(i)].writes)
        for (auto b = static_cast<size_t>(run.begin); b < static_cast<size_t>(run.end); ++b)
          at[b] = static_cast<std::byte>(random());
      if (i == until) return ring.abandon();
      for (const BlockRun& run : moves[static_cast<size_t>(i)].writes)
        std::copy(at + run.begin, at + run.end, image.begin() + run.begin);
      moved[static_cast<size_t>(i)].read_bytes += bytes_of(moves[static_cast<size_t>(i)].reads);
      moved[static_cast<size_t>(i)].written_bytes += bytes_of(moves[static_cast<size_t>(i)].writes);
      ring.release();
    }
  }
};

TEST(ImageRing, EachPassFindsWhatEarlierOnesWroteAndMovesNothingElse) {
  for (const int slots : {1, 2, 3, 6, 9})
    for (const int threads : {1, 2, 5}) {
      SCOPED_TRACE(std::to_string(slots) + " slots, " + std::to_string(threads) + " threads");
      MemoryScratch file(ImageRing::file_bytes_for(kImages, kTestBlock), kTestBlock);
      ImageRig rig(file, kImages, {.slots = slots, .threads = threads});
      ImageModel model(static_cast<uint32_t>(10 * slots + threads));
      for (int pass = 0; pass < 40; ++pass) model.pass(rig.ring);
      rig.ring.settle();
      EXPECT_EQ(model.wrong, 0);
      const ImageCounts counts = rig.ring.counts();
      EXPECT_EQ(counts.passes, 40);
      for (size_t i = 0; i < kImages.size(); ++i) {
        EXPECT_EQ(counts.images[i].read_bytes, model.moved[i].read_bytes) << i;
        EXPECT_EQ(counts.images[i].written_bytes, model.moved[i].written_bytes) << i;
      }
      size_t at = 0;
      for (const auto& image : model.images)
        for (const std::byte b : image) ASSERT_EQ(file.bytes()[at++], b);
    }
}

TEST(ImageRing, AnAbandonedPassWritesNothingOfWhatWasHeld) {
  MemoryScratch file(ImageRing::file_bytes_for(kImages, kTestBlock), kTestBlock);
  ImageRig rig(file, kImages, {.slots = 2, .threads = 3});
  ImageModel model(7);
  for (int pass = 0; pass < 60; ++pass) model.pass(rig.ring, pass % 8);  // 6 and 7: to the end
  rig.ring.settle();
  EXPECT_EQ(model.wrong, 0);
  EXPECT_NO_THROW(rig.ring.abandon());
}

// Long images go in pieces; short reads and writes go on where they ended.
TEST(ImageRing, ShortReadsAndWritesGoOn) {
  const std::vector<int64_t> images = {(int64_t{5} << 20) + 64, int64_t{3} << 20};
  MemoryScratch file(ImageRing::file_bytes_for(images, kTestBlock), kTestBlock);
  file.on_read = [](int64_t k, int64_t wanted) {
    return k % 5 == 1 ? int64_t{-EINTR} : std::max(kTestBlock, wanted / 2);
  };
  file.on_write = [](int64_t k, int64_t wanted) {
    return k % 4 == 2 ? int64_t{-EAGAIN} : std::max(kTestBlock, wanted / 3);
  };
  ImageRig rig(file, images, {.slots = 2, .threads = 3});
  std::vector<ImageMoves> all;
  for (const int64_t bytes : images) all.push_back({.reads = {{0, bytes}}, .writes = {{0, bytes}}});
  for (int pass = 0; pass < 3; ++pass) {
    rig.ring.begin(all);
    for (int i = 0; i < 2; ++i) {
      int64_t wrong = 0, at = 0;
      for (std::byte& b : rig.ring.acquire(i)) {
        wrong += b != (pass == 0 ? std::byte{0} : static_cast<std::byte>(pass + i + at / 1000));
        b = static_cast<std::byte>(pass + 1 + i + at / 1000);
        ++at;
      }
      EXPECT_EQ(wrong, 0) << "pass " << pass << " image " << i;
      rig.ring.release();
    }
  }
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) { return e.what(); }
  return "";
}

TEST(ImageRing, AReadThatFailsIsToldAndMayBeTriedAgain) {
  MemoryScratch file(ImageRing::file_bytes_for(kImages, kTestBlock), kTestBlock);
  bool fails = false;
  file.on_read = [&](int64_t, int64_t wanted) { return fails ? int64_t{-EIO} : wanted; };
  ImageRig rig(file, kImages, {.slots = 2, .threads = 2});
  ImageModel model(3);
  model.pass(rig.ring);
  fails = true;
  ImageModel unchanged = model;
  EXPECT_NE(message_of([&] { unchanged.pass(rig.ring); }).find("reading"), std::string::npos);
  rig.ring.abandon();
  fails = false;
  // What the failed pass wrote before its end is unknown here; what it did not begin is as it was.
  rig.ring.begin(std::vector<ImageMoves>(kImages.size(), ImageMoves{{{0, kTestBlock}}, {}}));
  EXPECT_NO_THROW(rig.ring.acquire(0));
  rig.ring.release();
  rig.ring.abandon();
}

TEST(ImageRing, AWriteThatFailsEndsTheNextPass) {
  MemoryScratch file(ImageRing::file_bytes_for(kImages, kTestBlock), kTestBlock);
  file.on_write = [](int64_t, int64_t) { return int64_t{-ENOSPC}; };
  ImageRig rig(file, kImages, {.slots = 6, .threads = 2});
  const std::string message = message_of([&] {
    ImageModel model(3);
    for (int pass = 0; pass < 2; ++pass) model.pass(rig.ring);
  });
  EXPECT_NE(message.find("writing"), std::string::npos) << message;
  EXPECT_NE(message.find("No space"), std::string::npos) << message;
  EXPECT_EQ(message.find("checkpoint"), std::string::npos) << message;
  rig.ring.abandon();
  EXPECT_THROW(rig.ring.begin(std::vector<ImageMoves>(kImages.size())), Error);
}

TEST(ImageRing, TakesImagesInTheirOrderAlone) {
  MemoryScratch file(ImageRing::file_bytes_for(kImages, kTestBlock), kTestBlock);
  ImageRig rig(file, kImages, {.slots = 2, .threads = 1});
  EXPECT_THROW(rig.ring.acquire(0), Bug);
  EXPECT_THROW(rig.ring.begin({}), Bug);
  rig.ring.begin(std::vector<ImageMoves>(kImages.size()));
  EXPECT_THROW(rig.ring.acquire(1), Bug);
  EXPECT_THROW(rig.ring.release(), Bug);
  rig.ring.acquire(0);
  EXPECT_THROW(rig.ring.acquire(0), Bug);
  EXPECT_THROW(rig.ring.begin(std::vector<ImageMoves>(kImages.size())), Bug);
}

}  // namespace
}  // namespace tern
