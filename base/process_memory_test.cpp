#include "base/process_memory.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(ProcessMemory, IsReadFromThisProcess) {
  const ProcessMemory process = read_process_memory();
  EXPECT_GT(process.resident_bytes, 1 << 20);
  EXPECT_GE(process.peak_resident_bytes, process.resident_bytes);
}

}  // namespace
}  // namespace tern
