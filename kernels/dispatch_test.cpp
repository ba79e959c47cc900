#include "kernels/dispatch.h"

#include <cstdlib>

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
  ASSERT_EQ(report.size(), 5u);
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

/// choose() reads the environment once, so each case is a process of its own.
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
      "TERN_ISA=sse9: no such instruction set; known are portable, avx2, avx512, avx512_bf16, amx_bf16");
}

}  // namespace
}  // namespace tern
