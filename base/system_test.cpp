#include "base/system.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "base/io.h"

namespace tern {
namespace {

TEST(System, ReadsThisMachine) {
  const MemoryFacts memory = read_memory_facts();
  EXPECT_GT(memory.total_bytes, 0);
  EXPECT_GT(memory.available_bytes, 0);
  EXPECT_LE(memory.available_bytes, memory.total_bytes);
  const CpuFacts cpu = read_cpu_facts();
  EXPECT_GE(cpu.num_usable, 1);
  EXPECT_LE(cpu.num_usable, cpu.num_logical);
  EXPECT_GT(read_disk_facts(".").free_bytes, 0);
}

class FakeRoot : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "tern-root-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    put("/proc/meminfo",
        "MemTotal:       8000 kB\nMemAvailable:   6000 kB\nHugePages_Total:       2\nHugepagesize:       2048 kB\n");
  }
  void TearDown() override { remove_all(real_io(), root_); }
  void put(const std::string& path, const std::string& text) {
    make_dirs(real_io(), parent_path(root_ + path));
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(FakeRoot, WithoutAControlGroupTheMachineCounts) {
  const MemoryFacts facts = read_memory_facts(root_);
  EXPECT_EQ(facts.total_bytes, 8000 * 1024);
  EXPECT_EQ(facts.available_bytes, 6000 * 1024);
  EXPECT_EQ(facts.huge_page_total_bytes, 4 << 20);
  EXPECT_FALSE(facts.group_limit_bytes.has_value());
}

TEST_F(FakeRoot, NodesOfMemoryAreThoseWithCores) {
  EXPECT_EQ(num_memory_nodes(root_), 1) << "nothing is told";
  put("/sys/devices/system/node/node0/cpulist", "0-3\n");
  put("/sys/devices/system/node/possible", "0-1\n");
  EXPECT_EQ(num_memory_nodes(root_), 1);
  put("/sys/devices/system/node/node1/cpulist", "4-7\n");
  put("/sys/devices/system/node/node2/cpulist", "\n");  // memory alone, such as an expander's
  EXPECT_EQ(num_memory_nodes(root_), 2);
}

TEST_F(FakeRoot, TheTightestLimitOfVersion2OnTheWayUpCounts) {
  put("/proc/self/cgroup", "0::/user/job\n");
  put("/sys/fs/cgroup/user/job/memory.max", "max\n");
  put("/sys/fs/cgroup/user/memory.max", "3000000\n");
  put("/sys/fs/cgroup/user/memory.current", "1000000\n");
  put("/sys/fs/cgroup/memory.max", "5000000\n");
  const MemoryFacts facts = read_memory_facts(root_);
  EXPECT_EQ(facts.group_limit_bytes, 3000000);
  EXPECT_EQ(facts.available_bytes, 2000000);
}

TEST_F(FakeRoot, TheLimitOfVersion1Counts) {
  put("/proc/self/cgroup", "7:cpu,cpuacct:/x\n4:memory:/job\n");
  put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2000000\n");
  put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "500000\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  const MemoryFacts facts = read_memory_facts(root_);
  EXPECT_EQ(facts.group_limit_bytes, 2000000);
  EXPECT_EQ(facts.available_bytes, 1500000);
  EXPECT_EQ(facts.transparent_huge_pages, "madvise");
}

}  // namespace
}  // namespace tern
