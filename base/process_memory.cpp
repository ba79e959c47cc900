#include "base/process_memory.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <fstream>
#include <string>

#include "base/system_files_impl.h"

namespace tern {

ProcessMemory read_process_memory() {
  const std::string status = read_system_file("/proc/self/status");
  return {field_bytes(status, "VmRSS"), field_bytes(status, "VmHWM")};
}

void return_freed_blocks() {
#if defined(__GLIBC__)
  ::mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
}

void keep_freed_blocks() {
#if defined(__GLIBC__)
  constexpr int kBytes = 256 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kBytes);
  ::mallopt(M_TRIM_THRESHOLD, kBytes);
#endif
}

bool reset_peak_resident() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
  file.close();
  return static_cast<bool>(file);
}

int64_t program_bytes() {
  // Measured as peak resident less counted tensors less resident at the start, over train (f32, bf16, exact; oneDNN
  // generates its kernels), generate and eval with small models: 5 to 11 MiB on a quiet machine, up to 19 beside eight
  // others of its kind, where the allocator keeps more of what was freed; on an EPYC 22, beside others 25 (dev/LOG.md).
  constexpr int64_t kGrowth = int64_t{28} << 20;
  return read_process_memory().resident_bytes + kGrowth;
}

}  // namespace tern
