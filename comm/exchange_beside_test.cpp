// An exchange on a rank's second thread: it does pass beside, its errors come out of the wait, and nothing outlives its end.
#include "comm/exchange_beside.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "base/bug.h"
#include "base/error.h"
#include "comm/decorators.h"
#include "comm/ranks_testing.h"

namespace tern {
namespace {

TEST(ExchangeBeside, RunsWhileItsPosterGoesOnAndOneAfterTheOther) {
  ExchangeBeside beside;
  beside.wait();  // none
  std::atomic<bool> open = false;
  std::thread::id ran_on;
  beside.post([&] {
    open.wait(false);
    ran_on = std::this_thread::get_id();
  });
  EXPECT_THROW(beside.post([] {}), Bug);
  open = true, open.notify_all();
  beside.wait();
  EXPECT_NE(ran_on, std::this_thread::get_id());
  int more = 0;
  for (int i = 0; i < 100; ++i) {
    PostedExchange posted(beside, [&] { ++more; });
    posted.wait();
    EXPECT_EQ(more, i + 1);
  }
}

TEST(ExchangeBeside, OneThatEndedIsStillToBeWaitedFor) {
  ExchangeBeside beside;
  std::promise<void> ended;
  beside.post([&] { ended.set_value(); });
  ended.get_future().wait();
  EXPECT_THROW(beside.post([] {}), Bug);
  beside.drop();
  beside.post([] {});
  beside.wait();
}

TEST(ExchangeBeside, WhatItThrowsComesOutOfTheWaitOnce) {
  ExchangeBeside beside;
  beside.post([] { throw Error(ErrorKind::peer, "on purpose"); });
  EXPECT_THROW(beside.wait(), Error);
  beside.wait();
  beside.post([] { throw Error(ErrorKind::peer, "on purpose"); });
  beside.drop();
  beside.wait();
}

TEST(ExchangeBeside, EndsBeforeWhatItWritesWhereItsPosterThrows) {
  ExchangeBeside beside;
  std::atomic<bool> ended = false;
  try {
    PostedExchange posted(beside, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ended = true;
    });
    throw Error(ErrorKind::diverged, "the compute failed");
  } catch (const Error& e) { EXPECT_STREQ(e.what(), "the compute failed"); }
  EXPECT_TRUE(ended);
  {
    ExchangeBeside other;
    ended = false;
    other.post([&] { ended = true; });
  }
  EXPECT_TRUE(ended);
}

std::string error_beside(const std::function<void(Comm&, ExchangeBeside&)>& work, bool baton) {
  try {
    run_ranks(2, {.baton = baton}, [&](std::unique_ptr<Transport> t) {
      if (t->rank() == 1) t = faulty(std::move(t), {TransportFaultKind::kill, 3});
      Comm comm(std::move(t));
      ExchangeBeside beside;
      work(comm, beside);
    });
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::peer);
    return e.what();
  }
  return "no error";
}

// Barriers as the exchanges: of the two ranks one dies in its fourth.
TEST(ExchangeBeside, ARankThatDiesInItEndsAllRanksWithTheTransportsWords) {
  for (const bool baton : {false, true}) {
    const auto barriers = [](Comm& comm, ExchangeBeside& beside) {
      for (int i = 0; i < 10; ++i) {
        PostedExchange posted(beside, [&] { comm.barrier(); });
        posted.wait();
      }
    };
    const std::string said = error_beside(barriers, baton);
    EXPECT_NE(said.find("rank 1: killed on purpose at"), std::string::npos) << said;
    const auto one_that_forgets = [&](Comm& comm, ExchangeBeside& beside) {
      if (comm.rank() == 1) return barriers(comm, beside);
      for (int i = 0; i < 3; ++i) comm.barrier();
      const PostedExchange dropped(beside, [&] { comm.barrier(); });
    };
    EXPECT_NE(error_beside(one_that_forgets, baton).find("rank 1: killed on purpose at"), std::string::npos);
  }
}

}  // namespace
}  // namespace tern
