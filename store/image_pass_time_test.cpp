// The clock of images against one that goes tick by tick, and the closed forms of passes that are equal throughout.
#include "store/image_pass_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tern {
namespace {

// The twin: a disk and a worker, a picosecond at a time.
class TickedPass {
 public:
  TickedPass(std::vector<ImageStep> steps, int64_t after_ps, int slots)
      : steps_(std::move(steps)), n_(steps_.size()), ring_(std::min(static_cast<size_t>(slots), n_)), after_(after_ps) {
    for (const ImageStep& s : steps_) read_left_.push_back(s.read_ps);
    write_left_.assign(n_, 0), at_rest_.assign(n_, false), acquired.assign(n_, -1);
    left_ = n_ > 0 ? steps_[0].before_ps : after_;
    for (settle(); !ended(); settle()) tick();
  }
  std::vector<int64_t> acquired;
  int64_t now = 0;

 private:
  bool ended() const {
    return used_ == n_ && left_ == 0 && std::ranges::all_of(write_left_, [](int64_t w) { return w == 0; });
  }
  // All that happens at one moment.
  void settle() {
    for (bool changed = true; changed;) {
      changed = false;
      if (begun_ < n_ && (begun_ < ring_ || at_rest_[begun_ - ring_])) ++begun_, changed = true;
      if (used_ == n_ || left_ > 0) continue;
      if (!held_ && used_ < begun_ && read_left_[used_] == 0) {
        held_ = true, changed = true, waits_ = false;
        acquired[used_] = now, left_ = steps_[used_].held_ps;
      } else if (held_) {
        write_left_[used_] = steps_[used_].write_ps, at_rest_[used_] = steps_[used_].write_ps == 0;
        held_ = false, changed = true, ++used_;
        left_ = used_ < n_ ? steps_[used_].before_ps : after_;
      } else {
        waits_ = true;
      }
    }
  }
  void tick() {
    ++now;
    if (left_ > 0) --left_;
    for (size_t i = 0; i < n_; ++i)
      if (write_left_[i] > 0) {
        at_rest_[i] = --write_left_[i] == 0;
        return;
      }
    for (size_t i = 0; i < begun_; ++i)
      if (read_left_[i] > 0) {
        --read_left_[i];
        return;
      }
    if (waits_) throw std::logic_error("the worker waits for a disk that does nothing");
  }
  std::vector<ImageStep> steps_;
  size_t n_, ring_, begun_ = 0, used_ = 0;
  int64_t after_, left_ = 0;
  bool held_ = false, waits_ = false;
  std::vector<int64_t> read_left_, write_left_;
  std::vector<bool> at_rest_;
};

TEST(ImagePassTime, IsThatOfTicks) {
  std::mt19937 random(11);
  const auto draw = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
  for (int round = 0; round < 3000; ++round) {
    std::vector<ImageStep> steps(static_cast<size_t>(draw(8)));
    const uint32_t reads = 1 + static_cast<uint32_t>(draw(20)), writes = 1 + static_cast<uint32_t>(draw(9));
    for (ImageStep& s : steps)
      s = {.read_ps = draw(reads), .write_ps = draw(writes), .before_ps = draw(12), .held_ps = draw(12)};
    const int64_t after = draw(15);
    const int slots = 1 + static_cast<int>(draw(4));
    const TickedPass want(steps, after, slots);
    const ImagePassTimes got = image_pass_times(steps, after, slots);
    ASSERT_EQ(got.acquired_ps, want.acquired) << "round " << round << ", " << steps.size() << " images, " << slots;
    ASSERT_EQ(got.end_ps, want.now) << "round " << round << ", " << steps.size() << " images, " << slots;
  }
}

TEST(ImagePassTime, OfEqualImagesItIsTheClosedForm) {
  for (const int64_t n : {1, 2, 7, 32})
    for (const auto& [read, held] : {std::pair<int64_t, int64_t>{9, 4}, {4, 9}, {5, 5}, {0, 3}, {3, 0}}) {
      const std::vector<ImageStep> steps(static_cast<size_t>(n), {.read_ps = read, .held_ps = held});
      EXPECT_EQ(image_pass_times(steps, 0, 1).end_ps, n * (read + held));
      for (const int slots : {2, 3, 40})
        EXPECT_EQ(image_pass_times(steps, 0, slots).end_ps, read + (n - 1) * std::max(read, held) + held);
    }
  EXPECT_EQ(image_pass_times({}, 17, 2).end_ps, 17);
  // The last write is waited for.
  const ImageStep one[] = {{.read_ps = 1, .write_ps = 100, .before_ps = 2, .held_ps = 3}};
  EXPECT_EQ(image_pass_times(one, 10, 2).end_ps, 5 + 100);
  EXPECT_EQ(image_pass_times(one, 1000, 2).end_ps, 5 + 1000);
}

// Neither below what disk and worker need each, nor above both one after the other.
TEST(ImagePassTime, LiesBetweenTheLargerAndTheSum) {
  std::mt19937 random(12);
  const auto draw = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
  for (int round = 0; round < 500; ++round) {
    std::vector<ImageStep> steps(static_cast<size_t>(1 + draw(40)));
    int64_t disk = 0, work = draw(1000);
    const int64_t after = work;
    for (ImageStep& s : steps) {
      s = {.read_ps = draw(1000), .write_ps = draw(100), .before_ps = draw(600), .held_ps = draw(300)};
      disk += s.read_ps + s.write_ps, work += s.before_ps + s.held_ps;
    }
    for (const int slots : {1, 2, 3}) {
      const int64_t end = image_pass_times(steps, after, slots).end_ps;
      EXPECT_GE(end, std::max(disk, work));
      EXPECT_LE(end, disk + work);
    }
    EXPECT_LE(image_pass_times(steps, after, 2).end_ps, image_pass_times(steps, after, 1).end_ps);
  }
}

}  // namespace
}  // namespace tern
