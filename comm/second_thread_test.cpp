#include "comm/second_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"

namespace tern {
namespace {

TEST(SecondThread, RunsJobsInTheirOrderWhileTheirPosterGoesOn) {
  std::atomic<bool> open = false;
  std::vector<int> ran;
  std::thread::id on;
  SecondThread beside;
  EXPECT_EQ(beside.wait(0), 0u);
  beside.post([&] {
    open.wait(false);
    on = std::this_thread::get_id();
  });
  for (int i = 0; i < 33; ++i) beside.post([&ran, i] { ran.push_back(i); });
  EXPECT_EQ(beside.wait(0), 0u) << "the first one waits for the test";
  open = true, open.notify_all();
  EXPECT_GE(beside.wait(7), 7u);
  EXPECT_EQ(beside.wait(34), 34u);
  EXPECT_NE(on, std::this_thread::get_id());
  for (int i = 0; i < 33; ++i) EXPECT_EQ(ran.at(static_cast<size_t>(i)), i);
}

TEST(SecondThread, AFailureHoldsLaterJobsUpUntilItIsTaken) {
  std::atomic<int> ran = 0;
  SecondThread beside;
  beside.post([&] { ++ran; });
  beside.post([] { throw Error(ErrorKind::peer, "on purpose"); });
  beside.post([&] { ++ran; });
  EXPECT_EQ(beside.wait(3), 2u) << "it ends the wait, and counts";
  EXPECT_TRUE(beside.failure());
  EXPECT_TRUE(beside.failure());
  EXPECT_EQ(ran, 1);
  EXPECT_THROW(std::rethrow_exception(beside.take_failure()), Error);
  EXPECT_EQ(beside.wait(3), 3u);
  EXPECT_EQ(ran, 2);
  EXPECT_FALSE(beside.take_failure());
}

TEST(SecondThread, WhatAJobHoldsIsGoneWhenItHasEnded) {
  SecondThread beside;
  auto held = std::make_shared<int>(1);
  beside.post([held] { EXPECT_EQ(*held, 1); });
  beside.wait(1);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(SecondThread, ItsEndWaitsForTheRunningJobAndDropsLaterOnes) {
  std::atomic<bool> begun = false;
  std::atomic<int> ended = 0;
  {
    SecondThread beside;
    beside.post([&] {
      begun = true, begun.notify_all();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ++ended;
    });
    beside.post([&] { ++ended; });
    begun.wait(false);
  }
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace tern
