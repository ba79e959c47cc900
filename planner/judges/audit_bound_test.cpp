#include "planner/judges/audit_bound.h"

#include <gtest/gtest.h>

#include "planner/instance/brute_force_test.h"
#include "planner/outer/mixed_instance_test.h"

namespace tern {
namespace {

// Every assignment that fits, through the simulator: the audit proves what is true and never more.
TEST(AuditBound, ProvesNothingAboveTheLeastMakespan) {
  int found = 0, by[5] = {}, infeasible = 0;
  double sum = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Instance in = random_instance(mixed_instance(seed), seed);
    const BruteForce best = brute_force(in);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << name_of(in.schedule));
    if (!best.found) {
      infeasible += audit_bound(in, int64_t{1} << 60).by == AuditedBy::memory;
      continue;
    }
    ++found;
    const AuditedBound above = audit_bound(in, best.value + 1);
    EXPECT_EQ(above.by, AuditedBy::open);
    EXPECT_LE(above.bound, best.value);
    sum += static_cast<double>(above.bound) / static_cast<double>(best.value);
    const AuditedBound asked = audit_bound(in, best.value * 9 / 10);
    EXPECT_LE(asked.bound, best.value);
    if (asked.by != AuditedBy::open) EXPECT_GE(asked.bound, best.value * 9 / 10);
    ++by[static_cast<int>(asked.by)];
  }
  EXPECT_GT(found, 250);
  EXPECT_GT(infeasible, 5);
  EXPECT_GT(sum / found, 0.75);
  for (const AuditedBy how : {AuditedBy::work, AuditedBy::paths, AuditedBy::labels})
    EXPECT_GT(by[static_cast<int>(how)], 5) << static_cast<int>(how);
  std::printf(
      "%d feasible, mean bound / optimum %.4f; nine tenths by work %d, paths %d, labels %d, open %d; %d without room\n",
      found, sum / found, by[1], by[2], by[3], by[4], infeasible);
}

}  // namespace
}  // namespace tern
