// Sums over replicas beside the compute: the bits and bytes of sums in their places, and errors that are nobody's hang.
#include "exec/sums_beside.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/decorators.h"
#include "comm/ranks_testing.h"
#include "exec/executor_testing.h"
#include "model/visit_weights.h"
#include "program/generate.h"
#include "program/validate.h"
#include "spec/recompute.h"

namespace tern {
namespace {

// --- the thread of the sums ---

TEST(SumsBeside, RunInOrderAndAreToldOfOnce) {
  const std::unique_ptr<Comm> solo = make_solo_comm();
  SumsBeside sums(real_clock(), solo.get());
  EXPECT_FALSE(sums.any());
  EXPECT_TRUE(sums.wait().empty());
  std::vector<size_t> ran;
  for (const size_t place : {3u, 7u, 9u}) sums.post(place, {}, [&ran, place] { ran.push_back(place); });
  EXPECT_TRUE(sums.any());
  std::vector<size_t> told;
  for (const SummedBeside& s : sums.wait()) {
    told.push_back(s.place);
    EXPECT_LE(s.begin_ns, s.end_ns);
  }
  EXPECT_EQ(ran, (std::vector<size_t>{3, 7, 9}));
  EXPECT_EQ(told, ran);
  EXPECT_FALSE(sums.any());
  EXPECT_TRUE(sums.ended().empty());
}

// The second sum waits for the test: who waits for what the first one reads is not held up.
TEST(SumsBeside, AWaitForABufferIsForTheSumsUpToTheLastThatReadsIt) {
  const std::unique_ptr<Comm> solo = make_solo_comm();
  std::atomic<bool> open = false;
  SumsBeside sums(real_clock(), solo.get());
  const Buffer a{BufferKind::summand, 3, 0}, b{BufferKind::summand, 1, 0}, never{BufferKind::summand, 1, 1};
  sums.post(0, {a}, [] {});
  sums.post(1, {b}, [&] { open.wait(false); });
  EXPECT_EQ(sums.wait_for(std::array{a}).size(), 1u);
  EXPECT_TRUE(sums.wait_for(std::array{never}).empty());
  EXPECT_TRUE(sums.any());
  open = true, open.notify_all();
  EXPECT_EQ(sums.wait_for(std::array{a, b}).size(), 1u);
}

TEST(SumsBeside, AFailureIsThrownByTheNextCallAndEndsTheSumsBehindIt) {
  const std::unique_ptr<Comm> solo = make_solo_comm();
  std::atomic<int> ran = 0;
  SumsBeside sums(real_clock(), solo.get());
  sums.post(0, {}, [&] { ++ran; });
  sums.post(1, {}, [] { throw Error(ErrorKind::peer, "on purpose"); });
  sums.post(2, {}, [&] { ++ran; });
  EXPECT_THROW(sums.wait(), Error);
  EXPECT_THROW(sums.ended(), Error);
  EXPECT_EQ(ran, 1);
}

// --- steps ---

struct SummedSteps {
  std::vector<std::vector<std::byte>> ranks;  // weights, state and losses of each
  std::vector<LinkBytes> links;
};

// Of what it keeps: parts of some parameters, of others nothing.
std::vector<std::byte> memory_of_rank(Bench& run) {
  std::vector<std::byte> all;
  const auto add = [&](const Tensor& t) {
    if (t.empty()) return;
    const auto* begin = static_cast<const std::byte*>(t.data());
    all.insert(all.end(), begin, begin + t.bytes());
  };
  for (const Tensor* t : trained_tensors(run.spec, run.weights)) add(*t);
  for (const Tensor& t : run.state.master) add(t);
  for (const std::vector<Tensor>& slot : run.state.slots)
    for (const Tensor& t : slot) add(t);
  return all;
}

using RunRanks = std::function<void(int, const std::function<void(std::unique_ptr<Transport>)>&)>;

Program shared_program(const Bench& run, const RankShare& share, int zero, int ranks) {
  Placement placed = placement_of(run.spec, share.costs, Recompute::none);
  placed.mesh.data = ranks, placed.update = run.config;
  placed.groups = zero >= 2 ? 1 : static_cast<int>(share.costs.size());
  for (PlacedLayer& l : placed.layers) l.strategy.zero = zero;
  return lower(run.spec, placed, 0);
}

SummedSteps summed_steps(const Case& c, int zero, int ranks, bool beside, const RunRanks& run_ranks_by) {
  SummedSteps all{std::vector<std::vector<std::byte>>(static_cast<size_t>(ranks)),
                  std::vector<LinkBytes>(static_cast<size_t>(ranks))};
  run_ranks_by(ranks, [&](std::unique_ptr<Transport> transport) {
    Comm comm(std::move(transport));
    const auto at = static_cast<size_t>(comm.rank());
    Bench run(c, update_config(UpdateRule::adamw), zero, comm.rank(), ranks);
    const RankShare share = keep_share(run, comm.rank(), ranks);
    const Program p = shared_program(run, share, zero, ranks);
    put_weights_at(*run.update, WeightPoint::computing);
    for (int step = 1; step <= 3; ++step) {
      begin_step(*run.update, step, [](int64_t) { return 1e-2; });
      ExecuteInput in = input_of(run, c, share, comm);
      in.sums_beside = beside;
      const ExecuteResult r = execute(p, in);
      EXPECT_EQ(describe_mismatches(r), "");
      EXPECT_EQ(r.trace.size(), p.instructions.size());
      all.links[at] += r.links;
      const auto* losses = reinterpret_cast<const std::byte*>(r.losses.data());
      all.ranks[at].insert(all.ranks[at].end(), losses, losses + r.losses.size() * sizeof(double));
    }
    const std::vector<std::byte> own = memory_of_rank(run);
    all.ranks[at].insert(all.ranks[at].end(), own.begin(), own.end());
    comm.barrier();
  });
  return all;
}

void expect_same_steps(const Case& c, int zero, int ranks, const RunRanks& by, const std::string& what) {
  const SummedSteps want = summed_steps(c, zero, ranks, false, by), got = summed_steps(c, zero, ranks, true, by);
  EXPECT_TRUE(got.ranks == want.ranks) << what << ", ZeRO " << zero;
  EXPECT_EQ(got.links, want.links) << what << ", ZeRO " << zero;
  EXPECT_GT(want.links[0].sent, 0);
}

Case in_four_micro_batches(Case c) {
  c.micro = std::vector<int64_t>(4, 1);
  return c;
}

// Untied, tied, experts, adapters; f32, bf16, f64. Ranks that run as they come, and one at a time.
TEST(SumsBeside, StepsHaveTheBitsAndBytesOfSumsInTheirPlaces) {
  const RunRanks as_they_come = [](int n, const auto& work) { run_ranks(n, {.deadline_s = 60}, work); };
  const RunRanks baton = [](int n, const auto& work) { run_ranks(n, {.baton = true}, work); };
  for (const char* name : {"llama_f32_fast", "gpt2_f64", "gpt2_bf16_exact", "experts_f32_exact"})
    for (const int zero : {0, 1, 3}) {
      const Case* c =
          std::ranges::find(kCases, std::string_view(name), [](const Case& of) { return std::string_view(of.name); });
      expect_same_steps(in_four_micro_batches(*c), zero, 2, as_they_come, name);
    }
  expect_same_steps(in_four_micro_batches(kCases[0]), 0, 4, baton, "four with a baton");
  expect_same_steps(in_four_micro_batches(kCases[5]), 2, 4, as_they_come, "four");
}

TEST(SumsBeside, SoHaveThoseBetweenProcesses) {
  const RunRanks sockets = [](int n, const auto& work) { run_socket_ranks(n, 20, work); };
  for (const int zero : {0, 1, 3}) expect_same_steps(in_four_micro_batches(kCases[5]), zero, 2, sockets, "sockets");
}

// Lends a model's weights and sees who asks for them.
class WatchedWeights final : public WeightLender {
 public:
  WatchedWeights(const ModelWeights& all, std::function<void(int)> asked) : all_(all), asked_(std::move(asked)) {}
  const UnitWeights& acquire(int unit) override {
    asked_(unit);
    return all_.units.at(static_cast<size_t>(unit));
  }
  void release(int) noexcept override {}

 private:
  const ModelWeights& all_;
  std::function<void(int)> asked_;
};

// Lets no sum's message go before `open`, but after ten seconds.
class HeldTransport final : public TransportDecorator {
 public:
  HeldTransport(std::unique_ptr<Transport> inner, const std::atomic<bool>& open, std::atomic<bool>& gave_up)
      : TransportDecorator(std::move(inner)), open_(open), gave_up_(gave_up) {}
  void send(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    if ((tag & 0xff) == static_cast<uint64_t>(MessageKind::reduce_scatter)) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (!open_ && !gave_up_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (std::chrono::steady_clock::now() > end) gave_up_ = true;
      }
    }
    TransportDecorator::send(to, tag, bytes);
  }

 private:
  const std::atomic<bool>& open_;
  std::atomic<bool>& gave_up_;
};

// Which time a unit's weights are asked for, of so many micro-batches: a forward and two passes of the backward of each.
constexpr int asked_in_last_backward_of(int micros) { return 3 * micros - 1; }

// The sum of the head's gradients cannot go on before the last backward of the first layer has begun.
TEST(SumsBeside, TheBackwardGoesOnWhileASumIsUnderWay) {
  const Case c = in_four_micro_batches(kCases[0]);
  std::array<std::atomic<bool>, 2> open{}, gave_up{};
  run_ranks(2, {}, [&](std::unique_ptr<Transport> transport) {
    const auto at = static_cast<size_t>(transport->rank());
    Comm comm(std::make_unique<HeldTransport>(std::move(transport), open[at], gave_up[at]));
    Bench run(c);
    const RankShare share = keep_share(run, comm.rank(), 2);
    int asked = 0;
    WatchedWeights weights(run.weights, [&](int unit) {
      if (unit == 1 && ++asked == asked_in_last_backward_of(2)) open[at] = true;
    });
    ExecuteInput in = input_of(run, c, share, comm);
    in.weights = weights;
    const Program p = shared_program(run, share, 0, 2);
    const ExecuteResult r = execute(p, in);
    EXPECT_EQ(describe_mismatches(r), "");
    EXPECT_TRUE(open[at] && !gave_up[at]) << "the backward waited for the sum";
    const auto first = std::ranges::find(r.trace, Opcode::reduce, &TraceEvent::op);
    const auto last =
        std::ranges::find_if(r.trace, [](const TraceEvent& e) { return e.op == Opcode::update && e.unit == 0; });
    ASSERT_TRUE(first != r.trace.end() && last != r.trace.end());
    const double ends = first->start_s + first->duration_s;
    EXPECT_TRUE(std::any_of(first, last, [&](const TraceEvent& e) {
      return e.op == Opcode::backward_input && e.start_s < ends;
    })) << "in the trace the sum lies beside the backward";
    const auto norm = std::ranges::find(r.trace, Opcode::norm, &TraceEvent::op);
    EXPECT_GE(norm->start_s, ends);
  });
}

std::string error_of_ranks(const std::function<void(std::unique_ptr<Transport>)>& work) {
  try {
    run_ranks(2, {.deadline_s = 60}, work);
  } catch (const Error& e) { return e.what(); }
  return "no error";
}

// A rank that dies in a sum, at each of its first messages.
TEST(SumsBeside, AFaultInASumIsTheStepsError) {
  const Case c = in_four_micro_batches(kCases[5]);
  for (int64_t at = 0; at < 6; ++at) {
    const std::string said = error_of_ranks([&](std::unique_ptr<Transport> t) {
      if (t->rank() == 1) t = faulty(std::move(t), {TransportFaultKind::kill, at});
      Comm comm(std::move(t));
      Bench run(c);
      const RankShare share = keep_share(run, comm.rank(), 2);
      execute(shared_program(run, share, 0, 2), input_of(run, c, share, comm));
    });
    EXPECT_NE(said.find("rank 1: killed on purpose at"), std::string::npos) << at << ": " << said;
  }
}

// A rank whose compute fails while its sums are under way: its own error is told, and nobody waits for ever.
TEST(SumsBeside, AFailureOfTheComputeEndsTheSums) {
  const Case c = in_four_micro_batches(kCases[0]);
  const std::string said = error_of_ranks([&](std::unique_ptr<Transport> t) {
    Comm comm(std::move(t));
    Bench run(c);
    const RankShare share = keep_share(run, comm.rank(), 2);
    int asked = 0;
    WatchedWeights weights(run.weights, [&](int unit) {
      if (unit == 1 && ++asked == asked_in_last_backward_of(2) && comm.rank() == 1)
        throw Error(ErrorKind::diverged, "the compute failed");
    });
    ExecuteInput in = input_of(run, c, share, comm);
    in.weights = weights;
    execute(shared_program(run, share, 0, 2), in);
    ADD_FAILURE() << "no error on rank " << comm.rank();
  });
  EXPECT_EQ(said, "the compute failed");
}

}  // namespace
}  // namespace tern
