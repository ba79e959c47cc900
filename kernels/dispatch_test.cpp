#include "kernels/dispatch.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/error.h"
#include "kernels/isa_selfcheck.h"
#include "kernels/kernel_testing.h"

namespace tern {
namespace {

TEST(Dispatch, PortableAlwaysRunsAndTheReportNamesEverySet) {
  const auto available = available_isas();
  ASSERT_FALSE(available.empty());
  EXPECT_EQ(available.front(), Isa::portable);
  const auto report = isa_report();
  ASSERT_EQ(report.size(), 6u);
  for (const IsaStatus& s : report) {
    EXPECT_FALSE(s.reason.empty()) << name_of(s.isa);
    EXPECT_EQ(s.self_test_passed, s.reason == "passed its self-test in every thread") << s.reason;
    EXPECT_TRUE(!s.supported || s.self_test_passed) << name_of(s.isa) << ": " << s.reason;
  }
}

TEST(Dispatch, ForceIsaSwitchesAndSwitchesBack) {
  const Isa before = active_isa();
  for (const Isa isa : available_isas()) {
    force_isa(isa);
    EXPECT_EQ(active_isa(), isa);
  }
  force_isa(before);
  for (const IsaStatus& s : isa_report()) {
    if (s.supported) continue;
    EXPECT_THROW(force_isa(s.isa), Error);
  }
}

TEST(Dispatch, IntelsProcessorsPreferMultiplyAddsToVdpbf16ps) {
  const auto preferred = [](bool intel, std::vector<Isa> without) {
    std::vector<IsaStatus> all;
    for (const Isa isa : isas_by_preference(intel)) {
      const bool runs = std::find(without.begin(), without.end(), isa) == without.end();
      all.push_back({.isa = isa, .compiled = true, .supported = runs, .self_test_passed = runs});
    }
    EXPECT_EQ(all.size(), isa_report().size());
    return choose_isa(all, "");
  };
  EXPECT_EQ(preferred(true, {}), Isa::amx_bf16);
  EXPECT_EQ(preferred(true, {Isa::amx_bf16}), Isa::avx512_vnni);
  EXPECT_EQ(preferred(false, {Isa::amx_bf16}), Isa::avx512_bf16);
  EXPECT_EQ(preferred(true, {Isa::amx_bf16, Isa::avx512_vnni}), Isa::avx512_bf16);
  EXPECT_EQ(preferred(false, {Isa::amx_bf16, Isa::avx512_bf16, Isa::avx512_vnni}), Isa::avx512);
}

TEST(Dispatch, ABetterSetThatCannotBeUsedIsTold) {
  const auto row = [](Isa isa, bool supported, bool passed, bool refused, const char* reason) {
    return IsaStatus{.isa = isa,
                     .compiled = true,
                     .supported = supported,
                     .self_test_passed = passed,
                     .refused = refused,
                     .reason = reason};
  };
  std::vector<IsaStatus> report = {row(Isa::portable, true, true, false, ""), row(Isa::avx2, true, true, false, ""),
                                   row(Isa::avx512, true, false, false, "failed its self-test: element 3"),
                                   row(Isa::avx512_bf16, false, false, false, "this processor does not have it"),
                                   row(Isa::amx_bf16, false, false, true, "the system refuses tile state")};
  const std::vector<std::string> told = describe_fallbacks(report, Isa::avx2);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_NE(told[0].find("avx512: failed its self-test: element 3; avx2 is used"), std::string::npos) << told[0];
  EXPECT_NE(told[1].find("amx_bf16: the system refuses tile state; avx2 is used"), std::string::npos) << told[1];
  report[1].self_test_passed = false;  // worse than what is used: nobody's loss
  report[2].self_test_passed = true;
  EXPECT_EQ(describe_fallbacks(report, Isa::avx512).size(), 1U);
}

/// The kernels of the best set with one of them replaced. The right ones are where the replacement can call them.
IsaKernels right;
template <class Member>
IsaKernels with(Member IsaKernels::*table, auto Member::*kernel, auto replacement) {
  IsaKernels wrong = right;
  (wrong.*table).*kernel = replacement;
  return wrong;
}

int threads_of_a_team() {
  int threads = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
  threads = omp_get_num_threads();
  return threads;
}

TEST(IsaSelfTest, NamesTheElementThatAWrongKernelGetsWrong) {
  right = kernels_of(active_isa());
  EXPECT_EQ(self_test(right), "");
  const auto says = [](const IsaKernels& wrong, const char* what) {
    EXPECT_NE(self_test(wrong).find(what), std::string::npos) << self_test(wrong);
  };
  using M = MatmulTable;
  says(with(&IsaKernels::matmul, &M::exact_f32,
            [](const float* x, const float* w, const float* b, int64_t m, int64_t n, int64_t k, bool add, float* y,
               int64_t stride, float* room) {
              right.matmul.exact_f32(x, w, b, m, n, k, add, y, stride, room);
              y[m * n - 1] = std::nextafter(y[m * n - 1], 1e9f);
            }),
       "f32 product of 40 rows, element 2799: got");
  says(with(&IsaKernels::matmul, &M::nn_f32,
            [](const float* dy, const float* w, int64_t m, int64_t n, int64_t k, bool add, float* dx) {
              if (n < 500) return right.matmul.nn_f32(dy, w, m, n, k, add, dx);
              right.matmul.nn_f32(dy, w, m, n / 2, k, add, dx);  // right for short sums only
            }),
       "f32 input gradient, element");
  says(with(&IsaKernels::matmul, &M::tn_f32, [](const float*, const float*, int64_t, int64_t, int64_t, float*) {}),
       "f32 weight gradient, element 0: got -0.25");
  says(with(&IsaKernels::matmul, &M::gram_lower, [](const float*, int64_t, int64_t, float*) {}),
       "f32 symmetric product");
  says(with(&IsaKernels::attention, &AttentionTable::bfloat16,
            [] {
              AttentionKernels<bf16> k = right.attention.bfloat16;
              k.forward = [](const AttentionShape& s, const AttentionSequence<bf16>& all, AttentionTile t,
                             const AttentionNext<bf16>& next, const bf16* q, bf16* out, float* lse, float* scratch) {
                right.attention.bfloat16.forward(s, all, t, next, q, out, lse, scratch);
                if (t.first > 0) out[t.first * s.out_stride] = to_bf16(3);
              };
              return k;
            }()),
       "bf16 attention, element");
}

TEST(IsaSelfTest, LooksAtEveryKernelOfTheTileUnit) {
  const auto all = available_isas();
  if (std::find(all.begin(), all.end(), Isa::amx_bf16) == all.end()) GTEST_SKIP() << "no tile unit here";
  right = kernels_of(Isa::amx_bf16);
  const auto says = [](const IsaKernels& wrong, const char* what) {
    EXPECT_NE(self_test(wrong).find(what), std::string::npos) << self_test(wrong);
  };
  using T = TileMatmulTable;
  constexpr auto kSilent = [](const auto&, const StripTask&) {};
  says(with(&IsaKernels::tiles, &T::to_f32, TileForward<float>{right.tiles.to_f32.thin, kSilent}),
       "bf16 product of 40 rows, element 0: got 0.5");
  says(with(&IsaKernels::tiles, &T::to_f32, TileForward<float>{kSilent, right.tiles.to_f32.wide}),
       "bf16 product of 1 rows, element 0: got 0.5");
  says(with(&IsaKernels::tiles, &T::to_bf16, TileForward<bf16>{right.tiles.to_bf16.thin, kSilent}),
       "bf16 to bf16 product of 40 rows");
  says(with(&IsaKernels::tiles, &T::nn,
            [](const TileTask& t, const bf16* dy, const bf16* w, int64_t n, int64_t k, bool add, bf16* dx) {
              right.tiles.nn(t, dy, w, n, k, add, dx);
              if (n > 500) dx[t.row * k] = to_bf16(0);
            }),
       "bf16 input gradient");
  says(with(&IsaKernels::tiles, &T::tn,
            [](const TileTask&, const bf16*, const bf16*, int64_t, int64_t, int64_t, float*) {}),
       "bf16 weight gradient, element 0: got -0.25");
  says(with(&IsaKernels::head_loss, &HeadLossTable::finish,
            [](const HeadLossTask&, const HeadLossThread*, int64_t, int64_t) {}),
       "input gradient of the head");
  says(with(&IsaKernels::tile_attention, &TileAttentionTable::backward,
            [](const AttentionShape& s, const TileAttentionTask& t, void* scratch) {
              right.tile_attention.backward(s, t, scratch);
              t.dv[t.length * s.kv_stride - 1] = to_bf16(9);
            }),
       "attention of training dv, element");
}

#if defined(__x86_64__)
/// Inside a team, as the products of sets without tiles are.
template <bool kIllegal>
void faults(const float*, const float*, const float*, int64_t, int64_t, int64_t, bool, float*, int64_t, float*) {
#pragma omp parallel for if (false)
  for (int i = 0; i < 2; ++i)
    if (kIllegal)
      asm volatile("ud2");
    else
      asm volatile("movq (%0), %%rax" ::"r"(uint64_t{1} << 63) : "rax");  // a general protection fault, as of ldtilecfg
}

TEST(IsaSelfTest, AFaultIsAnAnswerAndLeavesTheProcessAsItWas) {
  right = kernels_of(Isa::portable);
  ASSERT_EQ(threads_of_a_team(), 2);
  EXPECT_EQ(self_test(with(&IsaKernels::matmul, &MatmulTable::exact_f32, faults<true>)), "illegal instruction");
  EXPECT_EQ(threads_of_a_team(), 2);
  EXPECT_EQ(self_test(with(&IsaKernels::matmul, &MatmulTable::exact_f32, faults<false>)),
            "an instruction that the system forbids (SIGSEGV)");
  EXPECT_EQ(threads_of_a_team(), 2);
  EXPECT_EQ(self_test(right), "");
}

TEST(IsaSelfTest, OneThatEndsTheCopyLeavesTheOthersTheirAnswers) {
  right = kernels_of(Isa::portable);
  const IsaKernels faulty = with(&IsaKernels::matmul, &MatmulTable::exact_f32, faults<true>);
  const std::vector<IsaTest> fine{{right, true}, {right}}, mixed{{right, true}, {faulty}, {right}};
  EXPECT_EQ(self_tests(fine), (std::vector<std::string>{"", ""}));
  EXPECT_EQ(self_tests(mixed), (std::vector<std::string>{"", "illegal instruction", ""}));
  EXPECT_TRUE(self_tests({}).empty());
}

// As where eight trainers begin at once: other threads run and hold teams while the copy is made.
TEST(IsaSelfTest, RunsBesideOtherThreadsAndTheirTeams) {
  right = kernels_of(active_isa());
  std::atomic<bool> stop = false;
  std::vector<std::jthread> others;
  for (int i = 0; i < 3; ++i)
    others.emplace_back([&] {
      while (!stop) EXPECT_EQ(threads_of_a_team(), 2) << std::string(100, ' ');  // which takes memory, under a lock
    });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(self_test(right), "");
  stop = true;
}

// A signal handler would be the whole process's, and other threads of it have their own business.
TEST(IsaSelfTest, InstallsNoSignalHandler) {
  right = kernels_of(Isa::portable);
  struct sigaction before = {}, after = {};
  sigaction(SIGILL, nullptr, &before);
  std::atomic<bool> seen = false, stop = false;
  std::jthread watcher([&] {
    while (!stop)
      if (sigaction(SIGILL, nullptr, &after) == 0 && after.sa_handler != before.sa_handler) seen = true;
  });
  EXPECT_EQ(self_test(with(&IsaKernels::matmul, &MatmulTable::exact_f32, faults<true>)), "illegal instruction");
  stop = true;
  EXPECT_FALSE(seen);
}

TEST(Dispatch, ASetWhoseKernelsFaultIsLeftOutAndSaysWhy) {
  right = kernels_of(Isa::portable);
  std::vector<IsaStatus> all = isa_report();
  all.push_back(examine_isa(Isa::portable, with(&IsaKernels::matmul, &MatmulTable::exact_f32, faults<true>)));
  EXPECT_FALSE(all.back().self_test_passed);
  EXPECT_EQ(all.back().reason, "failed its self-test: illegal instruction");
  EXPECT_EQ(choose_isa(all, ""), available_isas().back()) << "the last that runs, not the last";
  try {
    choose_isa({&all.back(), 1}, "portable");
    ADD_FAILURE() << "a set that failed was chosen";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(e.what()).find("illegal instruction"), std::string::npos) << e.what();
  }
  EXPECT_THROW(choose_isa({&all.back(), 1}, ""), Error) << "nothing runs";
}
#endif

/// chosen_isa() reads the environment once, so each case is a process of its own.
TEST(DispatchDeathTest, TernIsaNamesTheSetOrSaysWhatIsKnown) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // a fresh process: OpenMP does not survive a fork
  EXPECT_EXIT(
      {
        setenv("TERN_ISA", "portable", 1);
        std::exit(active_isa() == Isa::portable ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        setenv("TERN_ISA", "sse9", 1);
        try {
          active_isa();
        } catch (const Error& e) {
          std::fputs(e.what(), stderr);
          std::exit(static_cast<int>(e.kind()));
        }
      },
      testing::ExitedWithCode(2),
      "TERN_ISA=sse9: no such instruction set; known are portable, avx2, avx512, (avx512_vnni, "
      "avx512_bf16|avx512_bf16, avx512_vnni), amx_bf16");
}

// A start takes no longer than the test of the set that it uses; the others wait until somebody asks about them.
TEST(DispatchDeathTest, AStartTestsNoSetWorseThanTheOneInUse) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        unsetenv("TERN_ISA");
        const Isa isa = active_isa();
        const std::vector<IsaStatus> all = examined_isas();
        const std::span<const Isa> order = isas_by_preference();
        const auto place = [&](Isa of) { return std::find(order.begin(), order.end(), of); };
        const bool better =
            std::all_of(all.begin(), all.end(), [&](const IsaStatus& s) { return place(s.isa) >= place(isa); });
        std::exit(
            better && all.front().self_test_passed && isa_report().size() == 6 && examined_isas().size() == 6 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        setenv("TERN_ISA", "portable", 1);
        std::exit(active_isa() == Isa::portable && examined_isas().size() == 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tern
