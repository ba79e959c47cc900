#include "kernels/cpu/thread_scratch.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <new>

#include "base/pages.h"
#include "base/sanitized.h"
#include "kernels/attention_testing.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/coded_int8.h"
#include "kernels/cpu/coded_rows_testing.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_table.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tile_attention.h"
#include "kernels/cpu/tile_matmul.h"
#include "kernels/cpu/tile_matmul_table.h"

namespace tern {
namespace {

constexpr int kMostThreads = 8;

/// What this thread's teams hold after `run`.
int64_t held_by(const std::function<void()>& run) {
#pragma omp parallel num_threads(kMostThreads)  // all that there may be: those of no use to `run` end in their own time
  drop_thread_scratch();
  run();
  int64_t held = 0;
#pragma omp parallel num_threads(kMostThreads) reduction(+ : held)
  held += thread_scratch_held();
  return held;
}

/// A kernel holds no more than it says, and what it says is no multiple of it. `run` with each number of threads.
void expect_said(const std::string& what, const std::function<ThreadBytes()>& said, const std::function<void()>& run) {
  for (const int threads : {1, 2, kMostThreads})
    with_threads(threads, [&] {
      const int64_t most = said().total(threads), held = held_by(run);
      EXPECT_LE(held, most + threads * static_cast<int64_t>(page_bytes())) << what << ", " << threads << " threads";
      EXPECT_GE(held, said().caller) << what << ", " << threads << " threads";
    });
}

TEST(ThreadScratch, ProductsHoldWhatTheySay) {
  int sets = 0;
  for_each_isa([&] {
    if (!reads_plain_weights(DType::bf16)) return;
    ++sets;
    for (const int64_t n : {70, 1100})
      for (const int64_t k : {64, 2049}) {
        const auto w = random_values<bf16>("w", n * k);
        const WeightRows<bf16> rows{w.data(), n};
        for (const int64_t m : {1, 17, 1100}) {
          const auto x = random_values<bf16>("x", m * k), dy = random_values<bf16>("dy", m * n);
          std::vector<bf16> y(static_cast<size_t>(m * n)), dx(static_cast<size_t>(m * k));
          std::vector<float> dw(static_cast<size_t>(n * k));
          const std::string size = fmt::format("{} × {} × {}", m, n, k);
          expect_said(
              "forward " + size, [&] { return forward_thread_bytes(DType::bf16, m, n, k); },
              [&] {
                multiply_plain<bf16, bf16>(x, {&rows, 1}, {}, m, n, k, false, std::span(y));
              });
          expect_said(
              "input gradient " + size, [&] { return nn_thread_bytes(DType::bf16, m, n, k); },
              [&] { multiply_nn<bf16>(dy, w, m, n, k, false, std::span(dx)); });
          expect_said(
              "weight gradient " + size, [&] { return tn_thread_bytes(DType::bf16, m, n, k); },
              [&] { multiply_tn<bf16>(dy, x, m, n, k, std::span(dw)); });
        }
      }
  });
  if (!sets) GTEST_SKIP() << "no instruction set here packs on the way";
}

TEST(ThreadScratch, ProductsThatWidenHoldWhatTheySay) {
  int sets = 0;
  for_each_isa([&] {
    if (widened_bytes(16, 64) == 0) return;
    ++sets;
    EXPECT_EQ(forward_thread_bytes(DType::bf16, 7, 70, 64).caller, 0);
    for (const int64_t k : {64, 2304, 33024}) {
      CodedCase c{.k = k};
      c.add(WeightType::bf16, 70);
      std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(DType::bf16, 70, k)));
      for (const int64_t m : {int64_t{8}, int64_t{17}, wide_rows(k) + 4}) {
        const auto x = random_values<bf16>("x", m * k);
        std::vector<bf16> y(static_cast<size_t>(m * 70));
        const auto said = [&] { return forward_thread_bytes(DType::bf16, m, 70, k); };
        expect_said(fmt::format("packed {} × {}", m, k), said,
                    [&] { multiply_exact<bf16, bf16>(x, packed, {}, m, 70, k, false, std::span(y)); });
        expect_said(fmt::format("coded {} × {}", m, k), said,
                    [&] { multiply_coded<bf16, bf16>(x, c.pieces, {}, m, 70, k, false, std::span(y)); });
      }
    }
  });
  if (!sets) GTEST_SKIP() << "no instruction set here widens bf16";
}

TEST(ThreadScratch, ProductsInIntegersHoldWhatTheySay) {
  struct Sizes {
    int64_t m, n, k;
  };
  int sets = 0;
  for_each_isa([&] {
    if (coded_int8_thread_bytes(16, 256).caller == 0) return;
    ++sets;
    // The last: twice as many strips of x as are kept at a time.
    for (const auto& [m, n, k] : {Sizes{17, 1100, 64}, Sizes{300, 1100, 2304}, Sizes{320, 20, 33024}}) {
      CodedCase c{.k = k};
      c.add(WeightType::q4_0, n);
      const auto x = random_values<bf16>("x", m * k);
      std::vector<bf16> y(static_cast<size_t>(m * n));
      expect_said(
          fmt::format("integers {} × {} × {}", m, n, k), [&] { return coded_int8_thread_bytes(m, k); },
          [&] { multiply_coded_int8<bf16, bf16>(x, c.pieces, {}, m, n, k, false, y); });
    }
  });
  if (!sets) GTEST_SKIP() << "no instruction set here multiplies integers on tiles";
}

// A step has fewer rows than the one it was counted for: the last micro-batch, an expert's rows, a token.
TEST(ThreadScratch, FewerRowsNeverTakeMore) {
  int sets = 0;
  for_each_isa([&] {
    if (!reads_plain_weights(DType::bf16)) return;
    ++sets;
    for (const int threads : {1, 2, 3, kMostThreads})
      with_threads(threads, [&] {
        for (const int64_t k : {64, 515, 24576}) {
          ThreadBytes forward, nn, tn;
          for (int64_t m = 1; m < 5000; m += m < 100 ? 1 : 97) {
            const ThreadBytes now[] = {forward_thread_bytes(DType::bf16, m, 96, k),
                                       nn_thread_bytes(DType::bf16, m, k, 96), tn_thread_bytes(DType::bf16, m, k, 96)};
            const ThreadBytes* before[] = {&forward, &nn, &tn};
            for (int i = 0; i < 3; ++i) {
              EXPECT_GE(now[i].caller, before[i]->caller) << i << ", " << m << " rows, " << k;
              EXPECT_GE(now[i].worker, before[i]->worker) << i << ", " << m << " rows, " << k;
            }
            forward = now[0], nn = now[1], tn = now[2];
          }
        }
      });
  });
  if (!sets) GTEST_SKIP() << "no instruction set here packs on the way";
}

TEST(ThreadScratch, AttentionHoldsWhatItSays) {
  const std::vector<int64_t> starts = {0, 336, 720};
  const AttentionShape shape = shape_of(4, 2, 64, 0);
  const auto q = random_values<bf16>("q", 720 * shape.q_stride), kv = random_values<bf16>("k", 720 * shape.kv_stride);
  for_each_isa([&] {
    std::vector<bf16> out(q.size()), dq(q.size()), dk(kv.size()), dv(kv.size());
    std::vector<float> lse(static_cast<size_t>(720 * shape.heads));
    const PlainSequences<bf16> sequences(shape, starts, kv.data(), kv.data());
    const int64_t plain = attention_scratch_bytes(shape);
    expect_said(
        "attention",
        [&] {
          return ThreadBytes{plain, plain};
        },
        [&] { attention_forward<bf16>(shape, sequences.list, q.data(), out.data(), lse); });
    std::vector<int64_t> many;  // sequences, so that up to eight threads take heads
    for (int64_t i = 0; i <= 16; ++i) many.push_back(i * 45);
    const int64_t heads = attention_backward_scratch_bytes(shape, 45);
    expect_said(
        "attention's backward",
        [&] {
          return ThreadBytes{heads, heads};
        },
        [&] {
          attention_backward<bf16>(shape, many, q.data(), kv.data(), kv.data(), out.data(), q.data(), lse, dq.data(),
                                   dk.data(), dv.data());
        });
    for (int64_t longest = 1, before = 0; longest < 5000; longest += 97) {
      const int64_t now = attention_backward_scratch_bytes(shape, longest);
      EXPECT_GE(now, std::max(before, plain));
      before = now;
    }
    if (!has_tile_attention()) return;
    for (const bool backward : {false, true}) {
      int64_t before = 0;
      for (int64_t longest = 1; longest < 1500; longest += 31) {
        const int64_t now = tile_attention_scratch_bytes(shape, longest, backward);
        EXPECT_GE(now, before) << longest << " rows, of which shorter sequences may want more";
        before = now;
      }
      const int64_t tiles = tile_attention_scratch_bytes(shape, starts, backward);
      EXPECT_LE(tiles, tile_attention_scratch_bytes(shape, int64_t{384}, backward));
      expect_said(
          "attention on tiles",
          [&] {
            return ThreadBytes{tiles, tiles};
          },
          [&] {
            if (!backward)
              return tile_attention_forward(shape, starts, q.data(), kv.data(), kv.data(), out.data(), lse);
            tile_attention_backward(shape, starts, q.data(), kv.data(), kv.data(), out.data(), q.data(), lse, dq.data(),
                                    dk.data(), dv.data());
          });
    }
  });
}

// --- no memory: a team's thread that finds none must not end the process

// An exception in a body of a parallel loop, on whichever thread.
TEST(ParallelRanges, AnExceptionOfABodyReachesTheCaller) {
  with_threads(4, [] {
    for (const int64_t at : {0, 399})
      EXPECT_THROW(parallel_ranges(400, 1, 1,
                                   [&](int64_t begin, int64_t end) {
                                     if (begin <= at && at < end) throw std::bad_alloc();
                                   }),
                   std::bad_alloc);
  });
}

#if !defined(TERN_SANITIZED)
// Leaves this process no address space to speak of.
void take_memory_away() {
  std::ifstream pages("/proc/self/statm");
  rlim_t size = 0;
  pages >> size;
  const rlim_t most = size * page_bytes() + (256 << 10);
  const rlimit limit{most, most};
  if (size == 0 || setrlimit(RLIMIT_AS, &limit) != 0) std::exit(3);
}

/// In a process of its own: `run` on a team of two of which the calling thread holds all it needs, the other nothing.
template <class Run>
[[noreturn]] void run_without_memory(int64_t caller_bytes, Run run) {
  omp_set_num_threads(2);
  static_cast<void>(active_isa());
#pragma omp parallel  // the threads are there
  drop_thread_scratch();
  thread_scratch(caller_bytes);
  take_memory_away();
  try {
    run();
  } catch (const std::bad_alloc&) { std::exit(0); }
  std::exit(1);
}

constexpr int64_t kWide = 8192;

[[noreturn]] void attend_without_memory() {
  const AttentionShape shape = shape_of(1, 1, kWide, 0);
  const std::vector<int64_t> starts = {0, 600};
  std::vector<float> q(static_cast<size_t>(600 * kWide)), out(q.size());
  const PlainSequences<float> sequences(shape, starts, q.data(), q.data());
  run_without_memory(attention_scratch_bytes(shape),
                     [&] { attention_forward<float>(shape, sequences.list, q.data(), out.data(), {}); });
}

TEST(NoMemoryDeathTest, AttentionThrowsWhereItWasCalled) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  ASSERT_GT(attention_scratch_bytes(shape_of(1, 1, kWide, 0)), 1 << 20);
  EXPECT_EXIT(attend_without_memory(), testing::ExitedWithCode(0), "");
}

// With kernels that compute nothing, so that any machine deals the tasks of the tile unit.
[[noreturn]] void multiply_without_memory(int64_t m) {
  constexpr auto kNothing = [](const auto&, const StripTask&) {};
  const TileMatmulTable table = {.present = true,
                                 .pack_panel = [](const bf16*, int64_t, int64_t, bf16*) {},
                                 .pack_thin = [](const bf16*, int64_t, int64_t, bf16*) {},
                                 .to_bf16 = {kNothing, kNothing},
                                 .to_f32 = {kNothing, kNothing},
                                 .nn = nullptr,
                                 .tn = nullptr};
  constexpr int64_t kDepth = 1 << 17, kColumns = 64;
  const std::vector<bf16> x(static_cast<size_t>(m * kDepth)), w(static_cast<size_t>(kColumns * kDepth));
  std::vector<float> y(static_cast<size_t>(m * kColumns));
  const WeightRows<bf16> rows{w.data(), kColumns};
  omp_set_num_threads(2);
  const ThreadBytes scratch = tile_forward_scratch(m, kColumns, kDepth);
  if (scratch.worker < 1 << 20) std::exit(4);
  run_without_memory(scratch.caller, [&] {
    tile_forward<float>(table, x.data(), {&rows, 1}, nullptr, m, kColumns, kDepth, false, y.data(), kColumns);
  });
}

TEST(NoMemoryDeathTest, ProductsOfTilesThrowWhereTheyAreCalled) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(multiply_without_memory(1), testing::ExitedWithCode(0), "") << "shares";
  EXPECT_EXIT(multiply_without_memory(40), testing::ExitedWithCode(0), "") << "tasks";
}
#endif

// What a growing buffer leaves behind is given back: only the largest is held.
TEST(ThreadScratch, GrowsToTheLargestAsked) {
  drop_thread_scratch();
  for (const int64_t bytes : {int64_t{64}, int64_t{100} << 10, int64_t{1} << 20, int64_t{3} << 20}) {
    auto* const at = static_cast<char*>(thread_scratch(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % 64, 0U);
    at[0] = at[bytes - 1] = 1;
    EXPECT_EQ(thread_scratch_held(), bytes);
    EXPECT_EQ(thread_scratch(bytes / 2), at);
  }
  drop_thread_scratch();
  EXPECT_EQ(thread_scratch_held(), 0);
}

}  // namespace
}  // namespace tern
