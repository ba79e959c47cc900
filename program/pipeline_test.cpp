#include "program/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/error.h"
#include "program/pipeline_bound.h"
#include "program/pipeline_order.h"
#include "program/pipeline_peaks.h"
#include "program/pipeline_run.h"

namespace tern {
namespace {

using Int = int64_t;
using Ints = std::vector<int64_t>;

int chunks_of(PipelineSchedule s) { return least_chunks(s); }

PipelineTimes equal_times(const PipelineShape& shape, Int f, Int b, Int w, Int send = 0) {
  const int s = shape.num_virtual_stages(), d = shape.num_devices;
  return {Ints(s, f), Ints(s, b), Ints(s, w), Ints(s - 1, send), Ints(s - 1, send), Ints(d, 0), Ints(d, 0)};
}

struct Ran {
  PipelineOrder order;
  PipelineRun run;
  Int worst_bubble = 0;  // of a device: span minus busy
};
Ran run_equal(const PipelineShape& shape, Int f, Int b, Int w, Int send = 0) {
  const PipelineTimes times = equal_times(shape, f, b, w, send);
  Ran r{pipeline_order(shape, times), {}};
  r.run = run_pipeline(shape, r.order, times);
  for (int d = 0; d < shape.num_devices; ++d)
    r.worst_bubble = std::max(r.worst_bubble, r.run.end[d] - r.run.begin[d] - r.run.busy[d]);
  return r;
}

// The cases of the formulas: p in {2, 4, 8}, m in {2p, 4p}; where a schedule's formula holds for fewer, also 1 and p.
template <class Check>
void for_shapes(PipelineSchedule schedule, int chunks, bool few, Check check) {
  for (const int p : {2, 4, 8})
    for (const int m : few ? std::vector{1, p, 2 * p, 4 * p} : std::vector{2 * p, 4 * p}) {
      SCOPED_TRACE(std::string(name_of(schedule)) + " p " + std::to_string(p) + " m " + std::to_string(m) + " v " +
                   std::to_string(chunks));
      check(PipelineShape{schedule, p, chunks, m}, p, m);
    }
}

TEST(PipelineFormulas, GpipeAnd1F1B) {
  for (const PipelineSchedule s :
       {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::deep_one_f_one_b})
    for_shapes(s, 1, true, [](const PipelineShape& shape, int p, int m) {
      const Int f = 7, b = 11, w = 5;
      const Ran r = run_equal(shape, f, b, w);
      EXPECT_EQ(r.run.makespan, (m + p - 1) * (f + b + w));  // a bubble of (p − 1)/(m + p − 1) of the step
      EXPECT_EQ(r.worst_bubble, (p - 1) * (f + b + w));
    });
}

TEST(PipelineFormulas, Interleaved) {
  for (const int v : {1, 2, 3, 4})
    for_shapes(PipelineSchedule::interleaved, v, false, [v](const PipelineShape& shape, int p, int m) {
      const Int f = 7, b = 11, w = 5;  // of a chunk
      const Ran r = run_equal(shape, f, b, w);
      EXPECT_EQ(r.run.makespan, m * v * (f + b + w) + (p - 1) * (f + b + w));  // (p − 1)/(v·m) of the ideal m·v·(f+b+w)
      EXPECT_EQ(r.worst_bubble, (p - 1) * (f + b + w));
    });
}

TEST(PipelineFormulas, ZeroBubble) {
  for_shapes(PipelineSchedule::zb_h1, 1, false, [](const PipelineShape& shape, int p, int m) {
    for (const auto& [f, b, w] : {std::array<Int, 3>{1, 1, 1}, {10, 10, 10}, {10, 11, 9}, {10, 12, 10}}) {
      const Ran r = run_equal(shape, f, b, w);
      EXPECT_EQ(r.worst_bubble, (p - 1) * (f + b - w)) << f << " " << b << " " << w;
      EXPECT_EQ(r.run.makespan, m * (f + b + w) + (p - 1) * (f + b - w)) << f << " " << b << " " << w;
    }
  });
  for_shapes(PipelineSchedule::zb_h2, 1, false, [](const PipelineShape& shape, int p, int m) {
    const Ran r = run_equal(shape, 1, 1, 1);
    EXPECT_EQ(r.worst_bubble, 0);
    EXPECT_EQ(r.run.makespan, 3 * m + p - 1);  // stage i begins at i: a parallelogram
  });
  for_shapes(PipelineSchedule::zb_v, 2, false, [](const PipelineShape& shape, int p, int m) {
    const Ran r = run_equal(shape, 1, 1, 1);
    EXPECT_EQ(r.worst_bubble, 0);
    EXPECT_EQ(r.run.makespan, 6 * m + p - 1);
  });
}

// Too few micro-batches to fill the V: weight gradients go where devices would wait. The makespan stays near a bound
// that no order can beat, and the peak where it was.
TEST(PipelineFormulas, ZeroBubbleVWithFewMicroBatches) {
  for (const int p : {2, 4, 8, 16})
    for (int m = 1; m < 2 * p - 1; ++m) {
      const PipelineShape shape{PipelineSchedule::zb_v, p, 2, m};
      const Ran r = run_equal(shape, 10, 13, 9);
      const Int bound = pipeline_lower_bound(shape, equal_times(shape, 10, 13, 9));
      EXPECT_LE(r.run.makespan * 100, bound * 107) << p << " " << m;
      const int s = shape.num_virtual_stages();
      for (const Int peak : pipeline_peaks(shape, r.order, Ints(s, 1), Ints(s, 1), Ints(s, 0))) EXPECT_LE(peak, 2 * p);
    }
}

TEST(PipelineFormulas, VHalfSlots) {
  for (const auto& [p, slots] : {std::pair{2, 1}, {4, 5}, {8, 17}, {16, 41}})
    for (const int m : {2 * p, 4 * p})
      EXPECT_EQ(run_equal({PipelineSchedule::v_half, p, 2, m}, 1, 1, 1).run.makespan - 6 * m, slots) << p << " " << m;
}

// Peaks. A micro-batch holds M_B bytes from its forward, M_W from its backward to its weight gradient.
TEST(PipelinePeaks, EqualTheClosedFormsOnEveryDevice) {
  const Int held = 10, held_weight = 7, transient = 3;
  const auto peaks = [&](const PipelineShape& shape) {
    const int s = shape.num_virtual_stages();
    return pipeline_peaks(shape, pipeline_order(shape, equal_times(shape, 1, 1, 1)), Ints(s, held),
                          Ints(s, held_weight), Ints(s, transient));
  };
  for_shapes(PipelineSchedule::gpipe, 1, true, [&](const PipelineShape& shape, int, int m) {
    for (const Int peak : peaks(shape)) EXPECT_EQ(peak, m * held + transient);
  });
  for_shapes(PipelineSchedule::one_f_one_b, 1, true, [&](const PipelineShape& shape, int p, int m) {
    for (int i = 0; i < p; ++i) EXPECT_EQ(peaks(shape)[i], std::min(m, p - i) * held + transient);
  });
  for_shapes(PipelineSchedule::deep_one_f_one_b, 1, true, [&](const PipelineShape& shape, int p, int m) {
    for (int i = 0; i < p; ++i) EXPECT_EQ(peaks(shape)[i], std::min(m, 2 * (p - i) - 1) * held + transient);
  });
  for (const int v : {1, 2, 3, 4})
    for_shapes(PipelineSchedule::interleaved, v, false, [&](const PipelineShape& shape, int p, int m) {
      for (int r = 0; r < p; ++r)
        EXPECT_EQ(peaks(shape)[r], std::min(2 * (p - r - 1) + (v - 1) * p + 1, v * m) * held + transient);
    });
  for_shapes(PipelineSchedule::zb_h1, 1, false, [&](const PipelineShape& shape, int p, int) {
    for (int i = 0; i < p; ++i) EXPECT_EQ(peaks(shape)[i], (p - i) * held + i * held_weight + transient);
  });
  for_shapes(PipelineSchedule::zb_h2, 1, false, [&](const PipelineShape& shape, int p, int) {
    for (int i = 0; i < p; ++i)
      EXPECT_EQ(peaks(shape)[i], (2 * p - 2 * i - 1) * held + 2 * i * held_weight + transient);
  });
  for_shapes(PipelineSchedule::zb_v, 2, false, [&](const PipelineShape& shape, int p, int) {
    for (const Int peak : peaks(shape)) EXPECT_EQ(peak, 2 * p * held + transient);  // chunks: half a stage each
  });
  for_shapes(PipelineSchedule::v_half, 2, false, [&](const PipelineShape& shape, int p, int) {
    const Ints all = peaks(shape);
    EXPECT_EQ(*std::max_element(all.begin(), all.end()), (p + 2) * held + transient);
  });
}

TEST(PipelinePeaks, CountTheOperationThatRuns) {
  // One stage, two micro-batches, unlike sizes: F holds 10 from its start, B turns 10 into 30 at its end, W lets go.
  const PipelineShape shape{PipelineSchedule::zb_h1, 1, 1, 2};
  const PipelineOrder order{{{Phase::forward, 0, 0},
                             {Phase::backward, 0, 0},
                             {Phase::forward, 0, 1},
                             {Phase::weight, 0, 0},
                             {Phase::backward, 0, 1},
                             {Phase::weight, 0, 1}}};
  EXPECT_EQ(pipeline_peaks(shape, order, Ints{10}, Ints{30}, Ints{5}), Ints{45});  // the second forward beside 30
}

// Random shapes and times, transfers and pauses included.
struct Draw {
  std::mt19937_64 random;
  Int up_to(Int n) { return static_cast<Int>(random() % static_cast<uint64_t>(n + 1)); }
  Ints list(int n, Int low, Int high) {
    Ints v(n);
    for (Int& x : v) x = low + up_to(high - low);
    return v;
  }
  PipelineShape shape(PipelineSchedule s) {
    const int p = 1 + static_cast<int>(up_to(5)), m = 1 + static_cast<int>(up_to(13));
    const int v = s == PipelineSchedule::interleaved ? 1 + static_cast<int>(up_to(2)) : chunks_of(s);
    return {s, p, v, s == PipelineSchedule::interleaved ? p * (1 + m % 3) : m};
  }
  PipelineTimes times(const PipelineShape& shape) {
    const int s = shape.num_virtual_stages(), d = shape.num_devices;
    const Int send = up_to(1) * 40;
    return {list(s, 0, 30),       list(s, 0, 60), list(s, 0, 30), list(s - 1, 0, send),
            list(s - 1, 0, send), list(d, 0, 20), list(d, 0, 50)};
  }
};

TEST(PipelineOrders, HoldEveryOperationInOrderOfMicroBatchesForAllShapes) {
  for (const PipelineSchedule s : kPipelineSchedules)
    for (int p = 1; p <= 9; ++p)
      for (int m = 1; m <= 20; ++m) {
        if (s == PipelineSchedule::interleaved && m % p != 0) continue;
        const PipelineShape shape{s, p, chunks_of(s), m};
        const PipelineOrder order = pipeline_order(shape, equal_times(shape, 3, 4, 2, 1));
        ASSERT_NO_THROW(prepare_pipeline(shape, order)) << name_of(s) << " " << p << " " << m;
        std::map<std::pair<int, int>, int>
            next;  // (phase, stage): weight gradients in one order, whatever the schedule
        for (const auto& ops : order)
          for (const PipelineOp& op : ops)
            ASSERT_EQ(op.micro, (next[{static_cast<int>(op.phase), op.stage}]++)) << name_of(s) << " " << p << " " << m;
      }
}

TEST(PipelineOrders, ZeroBubbleKeepsItsCapsWhateverTheTimes) {
  Draw draw{std::mt19937_64{20261121}};
  for (int k = 0; k < 2000; ++k) {
    const PipelineSchedule s = k % 2 == 0 ? PipelineSchedule::zb_h1 : PipelineSchedule::zb_h2;
    const PipelineShape shape = draw.shape(s);
    const PipelineOrder order = pipeline_order(shape, draw.times(shape));
    ASSERT_NO_THROW(prepare_pipeline(shape, order));
    const int stages = shape.num_virtual_stages();
    const Ints one(stages, 1), none(stages, 0);
    const Ints in_flight = pipeline_peaks(shape, order, one, none, none),
               total = pipeline_peaks(shape, order, one, one, none);
    for (int i = 0; i < stages; ++i) {
      EXPECT_LE(in_flight[i], zero_bubble_caps(s, stages, i).in_flight);
      EXPECT_LE(total[i], zero_bubble_caps(s, stages, i).total);
    }
  }
}

// The plain twin: starts and arrivals by relaxation, over and over until nothing moves; links serve whoever is ready
// first. Shares no code with the run.
PipelineRun plain_run(const PipelineShape& shape, const PipelineOrder& order, const PipelineTimes& t) {
  struct Op {
    PipelineOp op;
    int device;
    Int start = 0, end = 0;
  };
  std::vector<Op> ops;
  for (size_t d = 0; d < order.size(); ++d)
    for (const PipelineOp& op : order[d]) ops.push_back({op, static_cast<int>(d)});
  const auto cost = [&](const PipelineOp& op) {
    if (op.phase == Phase::forward) return t.forward[op.stage];
    if (op.phase == Phase::weight) return t.weight[op.stage];
    return t.backward[op.stage] + (splits_backward(shape.schedule) ? 0 : t.weight[op.stage]);
  };
  for (bool moved = true; moved;) {
    moved = false;
    std::map<std::pair<int, int>, std::vector<const Op*>> links;  // (from, to): transfers
    for (const Op& o : ops) {
      const int to = o.op.phase == Phase::forward ? o.op.stage + 1 : o.op.stage - 1;
      if (o.op.phase != Phase::weight && to >= 0 && to < shape.num_virtual_stages() && device_of(shape, to) != o.device)
        links[{o.device, device_of(shape, to)}].push_back(&o);
    }
    std::map<const Op*, Int> arrival;
    for (auto& [_, transfers] : links) {
      std::stable_sort(transfers.begin(), transfers.end(), [](const Op* a, const Op* b) { return a->end < b->end; });
      Int clear = 0;
      for (const Op* o : transfers)
        arrival[o] = clear =
            std::max(clear, o->end) +
            (o->op.phase == Phase::forward ? t.send_forward[o->op.stage] : t.send_backward[o->op.stage - 1]);
    }
    for (size_t k = 0; k < ops.size(); ++k) {
      Op& o = ops[k];
      Int start = t.begin[o.device];
      if (k > 0 && ops[k - 1].device == o.device) start = ops[k - 1].end;
      for (const Op& from : ops) {
        const int stage = o.op.phase == Phase::forward ? o.op.stage - 1 : o.op.stage + 1;
        if (o.op.phase != Phase::weight && from.op == PipelineOp{o.op.phase, stage, o.op.micro})
          start = std::max(start, arrival.contains(&from) ? arrival[&from] : from.end);
      }
      if (start != o.start || o.end != start + cost(o.op)) moved = true;
      o.start = start;
      o.end = start + cost(o.op);
    }
  }
  PipelineRun run{.begin = Ints(shape.num_devices, -1), .end = t.begin, .busy = Ints(shape.num_devices, 0)};
  for (const Op& o : ops) {
    if (run.begin[o.device] < 0) run.begin[o.device] = o.start;
    run.end[o.device] = o.end;
    run.busy[o.device] += o.end - o.start;
  }
  for (int d = 0; d < shape.num_devices; ++d) run.makespan = std::max(run.makespan, run.end[d] + t.tail[d]);
  return run;
}

TEST(PipelineRunTest, EqualsThePlainTwinOnRandomInstances) {
  Draw draw{std::mt19937_64{6}};
  PipelineScratch scratch;
  PipelineRun run;
  for (int k = 0; k < 400; ++k) {
    const PipelineShape shape = draw.shape(kPipelineSchedules[k % kPipelineSchedules.size()]);
    const PipelineTimes times = draw.times(shape);
    const PipelineOrder order = pipeline_order(shape, times);
    run_pipeline(prepare_pipeline(shape, order), times, scratch, run);
    const PipelineRun want = plain_run(shape, order, times);
    ASSERT_EQ(run.makespan, want.makespan) << k << " " << name_of(shape.schedule);
    ASSERT_EQ(run.begin, want.begin) << k;
    ASSERT_EQ(run.end, want.end) << k;
    ASSERT_EQ(run.busy, want.busy) << k;
  }
}

TEST(PipelineRunTest, PreparedRunsReuseTheirMemory) {
  const PipelineShape shape{PipelineSchedule::one_f_one_b, 4, 1, 16};
  const PipelineTimes times = equal_times(shape, 3, 5, 2, 1);
  const PreparedPipeline prepared = prepare_pipeline(shape, pipeline_order(shape, times));
  PipelineScratch scratch;
  PipelineRun run;
  run_pipeline(prepared, times, scratch, run);
  const Int *state = scratch.state.data(), *send = scratch.send.data(), *end = run.end.data();
  const Int first = run.makespan;
  run_pipeline(prepared, times, scratch, run);
  EXPECT_EQ(run.makespan, first);
  EXPECT_TRUE(state == scratch.state.data() && send == scratch.send.data() && end == run.end.data());
}

TEST(PipelineRunTest, SkippedRoundsChangeNoTime) {
  Draw draw{std::mt19937_64{8}};
  PipelineScratch scratch;
  PipelineRun walked, skipped;
  std::map<PipelineSchedule, int> ran, jumped;
  for (int k = 0; k < 1600; ++k) {
    PipelineShape shape = draw.shape(kPipelineSchedules[k % kPipelineSchedules.size()]);
    shape.num_micro = shape.num_devices * static_cast<int>(1 + draw.up_to(30));
    const PipelineTimes times = draw.times(shape);
    PreparedPipeline prepared = prepare_pipeline(shape, pipeline_order(shape, times));
    run_pipeline(prepared, times, scratch, skipped);
    ++ran[shape.schedule];
    jumped[shape.schedule] += scratch.skipped > 0;
    prepared.rounds = 0;
    prepared.first_round = prepared.steps.size();
    run_pipeline(prepared, times, scratch, walked);
    ASSERT_EQ(scratch.skipped, 0);
    ASSERT_EQ(skipped.makespan, walked.makespan) << k << " " << name_of(shape.schedule);
    ASSERT_EQ(skipped.begin, walked.begin) << k;
    ASSERT_EQ(skipped.end, walked.end) << k;
    ASSERT_EQ(skipped.busy, walked.busy) << k;
  }
  for (const auto& [schedule, n] : ran)
    if (schedule != PipelineSchedule::gpipe) { EXPECT_GE(jumped[schedule], n / 4) << name_of(schedule) << " of " << n; }
}

TEST(PipelineRunTest, ALongStepCostsLittleMoreThanAShortOne) {
  for (const PipelineSchedule s :
       {PipelineSchedule::one_f_one_b, PipelineSchedule::deep_one_f_one_b, PipelineSchedule::interleaved}) {
    const PipelineShape shape{s, 8, chunks_of(s), 4096};
    Draw draw{std::mt19937_64{9}};
    PipelineTimes times = draw.times(shape);
    for (Int& f : times.forward) f += 10;  // a stage that takes no time would never hold the others back
    const PreparedPipeline prepared = prepare_pipeline(shape, pipeline_order(shape, times));
    PipelineScratch scratch;
    PipelineRun run;
    run_pipeline(prepared, times, scratch, run);
    EXPECT_GE(scratch.skipped, static_cast<Int>(prepared.steps.size()) * 8 / 10) << name_of(s);
  }
}

TEST(PipelineRunTest, BeginAndTailBelongToTheStep) {
  const PipelineShape shape{PipelineSchedule::one_f_one_b, 2, 1, 2};
  PipelineTimes times = equal_times(shape, 1, 1, 1);
  times.begin = {5, 100};
  times.tail = {7, 0};
  // Device 1: F B F B from 100 on, 6 long; device 0 follows with the second backward until 108, then its tail.
  EXPECT_EQ(run_pipeline(shape, pipeline_order(shape, times), times).makespan, 100 + 3 + 3 + 2 + 7);
}

TEST(PipelineRunTest, ChunksBetweenTheSameDevicesShareTheirLink) {
  // Two devices, two chunks each: the second forward of chunk 0 and the first of chunk 2 leave device 0 close together.
  const PipelineShape shape{PipelineSchedule::interleaved, 2, 2, 2};
  PipelineTimes times = equal_times(shape, 1, 1, 0);
  const Int alone = run_pipeline(shape, pipeline_order(shape, times), times).makespan;
  times.send_forward = {10, 0, 10};
  // F0.0 ends at 1, arrives 11; F0.1 at 21; F1.0 11–12, F2.0 12–13 on device 0, then its transfer waits for the link
  // until 21 and arrives at 31.
  const Int together = run_pipeline(shape, pipeline_order(shape, times), times).makespan;
  EXPECT_EQ(together, plain_run(shape, pipeline_order(shape, times), times).makespan);
  EXPECT_GE(together - alone, 30);
}

TEST(PipelineRunTest, DeepWarmUpHidesTransfers) {
  for (const int p : {2, 4, 8})
    for (const int percent : {3, 10}) {  // of a stage's forward and backward, each way
      const int m = 16 * p;
      const Int f = 1000, b = 2000, send = 3000 * percent / 100;
      const Int plain = run_equal({PipelineSchedule::one_f_one_b, p, 1, m}, f, b, 0, send).run.makespan;
      const Int deep = run_equal({PipelineSchedule::deep_one_f_one_b, p, 1, m}, f, b, 0, send).run.makespan;
      const Int floor = (m + p - 1) * (f + b) + 2 * (p - 1) * send;  // every transfer of the lead-in and lead-out
      EXPECT_EQ(deep, floor) << p << " " << percent;
      EXPECT_GT(plain, deep + deep * percent / 200) << p << " " << percent;  // they cost plain 1F1B far more
    }
}

template <class Work>
void expect_throw_saying(Work work, const std::string& part) {
  try {
    work();
    ADD_FAILURE() << "no error; wanted '" << part << "'";
  } catch (const std::exception& e) { EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what(); }
}

TEST(PipelineRunTest, FindsDeadlocksAndBrokenOrders) {
  const PipelineShape shape{PipelineSchedule::one_f_one_b, 2, 1, 2};
  const PipelineTimes times = equal_times(shape, 1, 1, 1);
  const PipelineOrder good = pipeline_order(shape, times);
  const auto broken = [&](auto change, const std::string& part) {
    PipelineOrder order = good;
    change(order);
    expect_throw_saying([&] { run_pipeline(shape, order, times); }, part);
  };
  broken(
      [](PipelineOrder& o) {
        std::swap(o[0][1], o[0][2]);
        std::swap(o[1][0], o[1][2]);
      },
      "deadlock: each waits");
  broken([](PipelineOrder& o) { std::swap(o[1][0], o[1][1]); }, "device 1 at its operation 0, backward of stage 1");
  broken([](PipelineOrder& o) { o[0].pop_back(); }, "no backward of stage 0, micro-batch 1");
  broken([](PipelineOrder& o) { o[0].push_back(o[0][0]); }, "forward of stage 0, micro-batch 0: twice");
  broken([](PipelineOrder& o) { std::swap(o[0], o[1]); }, "on device 0, its stage lies on 1");
  broken([](PipelineOrder& o) { o[0][0].micro = 2; }, "out of 2 stages, 2 micro-batches");
  broken([](PipelineOrder& o) { o[0].push_back({Phase::weight, 0, 0}); }, "1f1b does not split the backward");
  broken([](PipelineOrder& o) { o.pop_back(); }, "an order of 1 devices, expected 2");
  expect_throw_saying(
      [&] {
        run_pipeline(shape, good, equal_times({PipelineSchedule::one_f_one_b, 3, 1, 2}, 1, 1, 1));
      },
      "times that are not of 2 stages on 2 devices");
}

TEST(PipelineOrders, RefuseShapesTheyHaveNoOrderFor) {
  const auto order = [](PipelineSchedule s, int p, int v, int m) {
    const PipelineShape shape{s, p, v, m};
    pipeline_order(shape, p > 0 && v > 0 ? equal_times(shape, 1, 1, 1) : PipelineTimes{});
  };
  expect_throw_saying([&] { order(PipelineSchedule::interleaved, 4, 2, 6); },
                      "6 micro-batches are no multiple of 4 stages");
  expect_throw_saying([&] { order(PipelineSchedule::v_half, 4, 3, 8); }, "has two per stage");
  expect_throw_saying([&] { order(PipelineSchedule::zb_v, 4, 1, 8); }, "has two per stage");
  expect_throw_saying([&] { order(PipelineSchedule::one_f_one_b, 4, 2, 8); }, "schedule 1f1b has one per stage");
  expect_throw_saying([&] { order(PipelineSchedule::gpipe, 4, 1, 0); }, "0 micro-batches");
}

}  // namespace
}  // namespace tern
