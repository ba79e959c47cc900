// Messages by MPI between ranks that mpirun has started.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "comm/mpi_world.h"
#include "tests/e2e/launched_process.h"

namespace tern {
namespace {

// Skipped where tern was built without MPI, or there is no mpirun.
TEST(Launch, MessagesByMpiGiveTheSameBits) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "no mpirun (Debian: openmpi-bin)";
  const TinyRun tiny;
  std::string errors;
  int out = 0;
  const auto by_mpirun = [&](const char* ranks, const Words& words) {
    Words all{"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
              "mpirun",       "--oversubscribe",          "-n",
              ranks};
    all.insert(all.end(), words.begin(), words.end());
    all.insert(all.end(), {"--transport", "mpi"});
    return run_to_end(all, tiny.root(), &errors);
  };
  const std::string plan = tiny.root() + "/plan.json";
  ASSERT_EQ(run_to_end(plan_command(tiny, "pp=2,dp=1,tp=1,cp=1,zero=0,micro-batch=1", plan,
                                    {"--batch", "4", "--schedules", "1f1b"}),
                       tiny.root(), &errors),
            0)
      << errors;
  for (const Words& of_run :
       {Words{"--plan", plan, "--ranks", "2"}, Words{"--sum-groups", "2", "--ranks", "2"},
        Words{"--sum-groups", "4", "--zero", "3", "--ranks", "4"}, Words{"--tensor-parallel", "2", "--ranks", "4"}}) {
    const auto command = [&] {
      Words more{"--micro-batch", "1"};
      more.insert(more.end(), of_run.begin(), of_run.end());
      return tiny.command(tiny.out(++out), more);
    };
    ASSERT_EQ(run_to_end(command(), tiny.root(), &errors), 0) << errors;
    ASSERT_EQ(by_mpirun(of_run.back().c_str(), command()), 0) << errors;
    EXPECT_TRUE(final_bits(tiny.out(out)) == final_bits(tiny.out(out - 1))) << of_run.back() << " ranks";
  }
  EXPECT_EQ(run_to_end(launched(2, tiny.command(tiny.out(++out), {"--transport", "mpi"})), tiny.root(), &errors), 2);
  EXPECT_NE(errors.find("start it with mpirun"), std::string::npos) << errors;
  EXPECT_EQ(run_to_end(tiny.command(tiny.out(out), {"--transport", "mpi"}), tiny.root(), &errors), 2);
  EXPECT_NE(errors.find("--transport mpi: this process is a run of its own"), std::string::npos) << errors;
}

}  // namespace
}  // namespace tern
