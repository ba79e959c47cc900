// Asynchronous training: any recorded order is replayed to the bit, whatever stops it; workers that leave; bytes; the run of one worker.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/error.h"
#include "comm/ranks_testing.h"
#include "train/arrivals_file.h"
#include "train/async_trainer.h"
#include "train/ranks_testing.h"

namespace tern {
namespace {

TrainSettings async_settings(const RunInputs& inputs, DType dtype, AsyncRule rule, int workers) {
  TrainSettings s = settings_of(inputs, dtype);
  s.sum_order.groups = 1;
  s.batch = 2, s.micro_batch = 1;
  const double momentum = rule == AsyncRule::asgd ? 0 : 0.8;
  s.optimizer = update_config(UpdateRule::sgd, {{"momentum", momentum}, {"weight-decay", 0.01}});
  s.async = AsyncSettings{.rule = {.rule = rule, .momentum = momentum, .workers = workers}, .replay = {}};
  s.schedule.total_steps = 20;
  s.checkpoint_every = 3, s.eval_every = 8;
  return s;
}

using RunRanks = std::function<void(int, const std::function<void(std::unique_ptr<Transport>)>&)>;
void on_threads(int ranks, const std::function<void(std::unique_ptr<Transport>)>& work) { run_ranks(ranks, {}, work); }
void on_sockets(int ranks, const std::function<void(std::unique_ptr<Transport>)>& work) {
  run_socket_ranks(ranks, 20, work);
}

TrainResult async_run(const TrainSettings& s, Io& io, const TrainHooks& hooks = {},
                      const std::atomic<bool>& stop = kNeverStops, const Wrap& wrap = {},
                      const RunRanks& run = on_threads) {
  TrainResult result;
  run(num_async_ranks(s), [&](std::unique_ptr<Transport> transport) {
    with_threads(1, [&] {
      const int rank = transport->rank();
      if (wrap) transport = wrap(std::move(transport));
      TrainResult own =
          train(s, rank == 0 ? hooks : TrainHooks{}, io,
                {.world = std::make_shared<Comm>(std::move(transport)), .stop = rank == 0 ? stop : kNeverStops});
      if (rank == 0) result = std::move(own);
    });
  });
  return result;
}

// A file of the disk, which replay reads through the run's Io.
void put_arrivals(Io& io, const std::string& text) { write_file_atomically(io, "order.txt", text); }

std::string round_robin(int workers, int receipts) {
  std::string text;
  for (int t = 0; t < receipts; ++t) text += fmt::format("{}\n", t % workers);
  return text;
}

// Uneven: worker 0 comes seldom, two others twice in a row.
std::string uneven(int workers, int receipts) {
  std::string text;
  for (int t = 0; t < receipts; ++t) text += fmt::format("{}\n", t % 7 == 3 ? 0 : 1 + t / 2 % (workers - 1));
  return text;
}

TEST(TrainAsync, ARecordedOrderIsReplayedToTheBitAndBytesAreThePredictedOnes) {
  const RunInputs inputs(true);
  for (const AsyncRule rule : {AsyncRule::asgd, AsyncRule::momentum, AsyncRule::ormo, AsyncRule::ormo_da})
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(fmt::format("{} {}", kAsyncRuleNames[static_cast<size_t>(rule)], name_of(dtype)));
      TrainSettings s = async_settings(inputs, dtype, rule, 3);
      MemoryIo free, replayed;
      const TrainResult one = async_run(s, free);
      EXPECT_EQ(one.end, TrainEnd::finished);
      EXPECT_EQ(one.byte_mismatches, 0);
      EXPECT_EQ(one.counted_peak_bytes, one.predicted.tensors());
      ASSERT_TRUE(one.evaluation && one.loss);
      const std::string record = free.read("run/arrivals.txt");
      EXPECT_TRUE(record.starts_with("# 3 workers\n")) << record;
      // A record of an older run has no such line.
      put_arrivals(replayed, dtype == DType::f32 ? record : record.substr(record.find('\n') + 1));
      s.async->replay = "order.txt";
      const TrainResult two = async_run(s, replayed);
      EXPECT_TRUE(bits_of(two, replayed) == bits_of(one, free));
      EXPECT_EQ(*two.loss, *one.loss);
      EXPECT_EQ(two.evaluation->loss, one.evaluation->loss);
    }
}

// A worker whose only gradient comes when no receipt is left takes its memory all the same.
TEST(TrainAsync, TheMemoryOfAWorkerThatComesTooLateIsCounted) {
  const RunInputs inputs(false);
  TrainSettings s = async_settings(inputs, DType::f32, AsyncRule::momentum, 3);
  s.async->replay = "order.txt";
  std::string order;
  for (int64_t t = 0; t < s.schedule.total_steps; ++t) order += fmt::format("{}\n", 1 + t % 2);
  MemoryIo io;
  put_arrivals(io, order);
  const TrainResult result = async_run(s, io);
  EXPECT_EQ(result.end, TrainEnd::finished);
  EXPECT_EQ(result.counted_peak_bytes, result.predicted.tensors());
}

// At every receipt: stopped in its order by a full stop, or by a worker that is killed; the same command goes on.
TEST(TrainAsync, AStopOrAKilledRankAnywhereGoesOnToTheSameBits) {
  const RunInputs inputs(false);
  TrainSettings s = async_settings(inputs, DType::f32, AsyncRule::ormo, 4);
  s.async->replay = "order.txt";
  MemoryIo whole;
  put_arrivals(whole, uneven(4, 20));
  const TrainResult want = async_run(s, whole);
  const std::string bits = bits_of(want, whole);
  for (int receipt = 1; receipt < 20; ++receipt) {
    MemoryIo io;
    put_arrivals(io, uneven(4, 20));
    std::atomic<bool> stop = false;
    const TrainResult first = async_run(s, io, {.step = [&](const StepReport& r) { stop = r.step == receipt; }}, stop);
    EXPECT_EQ(first.end, TrainEnd::interrupted);
    EXPECT_EQ(first.last_step, receipt);
    EXPECT_TRUE(bits_of(async_run(s, io), io) == bits) << receipt;
  }
  for (const int rank : {0, 2}) {
    MemoryIo counted, io;
    for (Io* each : {&counted, &io}) put_arrivals(*each, uneven(4, 20));
    std::atomic<int64_t> sends = 0;
    async_run(s, counted, {}, kNeverStops, counts_sends_of(rank, sends));
    EXPECT_THROW(async_run(s, io, {}, kNeverStops, kills(rank, sends * 7 / 10)), Error);
    const TrainResult second = async_run(s, io);
    EXPECT_GT(second.first_step, 0);
    EXPECT_LT(second.first_step, 20);
    EXPECT_TRUE(bits_of(second, io) == bits) << "rank " << rank;
  }
}

TEST(TrainAsync, EveryRuleGoesOnFromAStopToTheSameBits) {
  const RunInputs inputs(true);
  for (const AsyncRule rule : {AsyncRule::asgd, AsyncRule::momentum, AsyncRule::ormo_da}) {
    SCOPED_TRACE(kAsyncRuleNames[static_cast<size_t>(rule)]);
    TrainSettings s = async_settings(inputs, DType::f64, rule, 3);
    s.async->replay = "order.txt";
    MemoryIo whole, stopped;
    for (Io* each : {&whole, &stopped}) put_arrivals(*each, uneven(3, 20));
    const std::string want = bits_of(async_run(s, whole), whole);
    std::atomic<bool> stop = false;
    async_run(s, stopped, {.step = [&](const StepReport& r) { stop = r.step == 11; }}, stop);
    const TrainResult second = async_run(s, stopped);
    EXPECT_EQ(second.first_step, 11);
    EXPECT_TRUE(bits_of(second, stopped) == want);
  }
}

TEST(TrainAsync, ProcessesTransportHasTheBitsOfThreads) {
  const RunInputs inputs(true);
  TrainSettings s = async_settings(inputs, DType::f32, AsyncRule::ormo, 3);
  MemoryIo sockets, threads;
  const TrainResult one = async_run(s, sockets, {}, kNeverStops, {}, on_sockets);
  put_arrivals(threads, sockets.read("run/arrivals.txt"));
  s.async->replay = "order.txt";
  EXPECT_TRUE(bits_of(async_run(s, threads), threads) == bits_of(one, sockets));
}

TEST(TrainAsync, AWorkerThatLeavesIsNotWaitedFor) {
  const RunInputs inputs(false);
  TrainSettings s = async_settings(inputs, DType::f32, AsyncRule::ormo, 3);
  s.async->leaves = {1, 2};
  MemoryIo io, replayed;
  std::vector<std::string> notes;
  const TrainResult r = async_run(s, io, {.note = [&](const std::string& text) { notes.push_back(text); }});
  EXPECT_EQ(r.end, TrainEnd::finished);
  const std::vector<int32_t> arrivals = parse_arrivals(io.read("run/arrivals.txt"), "", 3);
  EXPECT_EQ(arrivals.size(), 20u);
  EXPECT_EQ(std::ranges::count(arrivals, 1), 2);
  EXPECT_TRUE(std::ranges::any_of(notes, [](const std::string& n) { return n.starts_with("worker 1 has left"); }));
  put_arrivals(replayed, io.read("run/arrivals.txt"));
  s.async->replay = "order.txt";
  EXPECT_TRUE(bits_of(async_run(s, replayed), replayed) == bits_of(r, io));
}

// Who watches hears what a stop leaves uncounted, and the page is there as of any run.
TEST(TrainAsync, GradientsThatNoReceiptTakesAreToldAndThePageIsWritten) {
  const RunInputs inputs(false);
  TrainSettings s = async_settings(inputs, DType::f32, AsyncRule::ormo, 3);
  MemoryIo io;
  std::vector<std::string> notes;
  std::atomic<bool> stop = false;
  const TrainHooks hooks{.note = [&](const std::string& text) { notes.push_back(text); },
                         .step = [&](const StepReport& r) { stop = r.step == 7; }};
  EXPECT_EQ(async_run(s, io, hooks, stop).last_step, 7);
  const auto told = [&](const std::string& begin) {
    return std::ranges::any_of(notes, [&](const std::string& n) { return n.starts_with(begin); });
  };
  EXPECT_TRUE(told("asynchronous: rule ormo, 3 workers, momentum 0.8"));
  EXPECT_TRUE(told("2 gradients (32 tokens) came after the run was stopped at receipt 7 of 20 and are not counted"))
      << fmt::format("{}", fmt::join(notes, "\n"));
  EXPECT_NE(io.read("run/page.html").find("7 of 20"), std::string::npos);
  notes.clear();
  async_run(s, io, hooks);
  EXPECT_TRUE(told("2 gradients (32 tokens) came after receipt 20 of 20")) << fmt::format("{}", fmt::join(notes, "\n"));
}

// One worker is never late: momentum SGD on one rank, where the rate does not change (here it goes into the momentum).
TEST(TrainAsync, OneWorkerIsThePlainRun) {
  const RunInputs inputs(true);
  TrainSettings s = async_settings(inputs, DType::f64, AsyncRule::ormo, 1);
  s.schedule.kind = LearningRateKind::constant, s.schedule.warmup_steps = 0;
  MemoryIo async, plain;
  const TrainResult one = async_run(s, async);
  s.async.reset();
  const TrainResult other = train_on(s, 1, plain);
  EXPECT_NEAR(one.evaluation->loss, other.evaluation->loss, 1e-12);
  EXPECT_NEAR(*one.loss, *other.loss, 1e-12);
}

// K workers in turn, always the next bucket: K·batch sequences a step, gradients summed instead of averaged.
TEST(TrainAsync, ItLearns) {
  const RunInputs inputs(false);
  for (const AsyncRule rule : {AsyncRule::asgd, AsyncRule::ormo, AsyncRule::ormo_da}) {
    TrainSettings s = async_settings(inputs, DType::f32, rule, 4);
    s.schedule.kind = LearningRateKind::constant;
    s.schedule.total_steps = 120, s.schedule.peak = rule == AsyncRule::asgd ? 1.0 : 0.2, s.checkpoint_every = 0;
    s.eval_every = 120;
    s.async->replay = "order.txt";
    MemoryIo io;
    put_arrivals(io, round_robin(4, 120));
    const TrainResult r = async_run(s, io);
    EXPECT_LT(r.evaluation->loss, 4.5) << kAsyncRuleNames[static_cast<size_t>(rule)];
    std::printf("%s: %.4f\n", kAsyncRuleNames[static_cast<size_t>(rule)].data(), r.evaluation->loss);
  }
}

TEST(TrainAsync, WhatDoesNotFitTheRunIsRefused) {
  const RunInputs inputs(false);
  TrainSettings s = async_settings(inputs, DType::f32, AsyncRule::ormo, 3);
  s.schedule.total_steps = 6;
  MemoryIo io;
  put_arrivals(io, "0\n1\n");
  s.async->replay = "order.txt";
  const auto refused = [&](TrainSettings changed) -> std::string {
    try {
      async_run(changed, io);
    } catch (const Error& e) { return e.what(); }
    return "";
  };
  EXPECT_NE(refused(s).find("--replay order.txt: 2 arrivals, --steps 6"), std::string::npos) << refused(s);
  put_arrivals(io, arrivals_text({0, 1, 0, 1, 0, 1}, 2));
  EXPECT_NE(refused(s).find("--replay order.txt: an order of 2 workers, but --workers 3"), std::string::npos)
      << "all of its numbers are those of workers: " << refused(s);
  put_arrivals(io, "# 3 workers\n0\n# 3 workers\n");
  EXPECT_NE(refused(s).find("order.txt:3: '# 3 workers'"), std::string::npos) << refused(s);
  put_arrivals(io, "0\n1\n3\n");
  EXPECT_NE(refused(s).find("order.txt:3: '3'"), std::string::npos) << refused(s);
  put_arrivals(io, "0\n1\n2\n0\n1\n2\n2\n2\n");
  EXPECT_EQ(refused(s), "");
  s.schedule.total_steps = 8;
  put_arrivals(io, "0\n1\n2\n2\n2\n2\n2\n2\n");
  EXPECT_NE(refused(s).find("another order of arrivals"), std::string::npos) << refused(s);
  TrainSettings other = s;
  other.async->rule.rule = AsyncRule::momentum, other.async->replay.clear();
  EXPECT_NE(refused(other).find("--async-rule: ormo in the checkpoint, momentum now"), std::string::npos);
  other = s, other.async->rule.workers = 4, other.async->replay.clear();
  EXPECT_NE(refused(other).find("--workers: 3 in the checkpoint, 4 now"), std::string::npos);
}

}  // namespace
}  // namespace tern
