#pragma once
// Facts about the machine this process runs on: its memory, cores and disks. Nothing here measures speed.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

struct MemoryFacts {
  int64_t total_bytes = 0;
  int64_t available_bytes = 0;               // MemAvailable, within the control group's limit
  std::optional<int64_t> group_limit_bytes;  // cgroup v1 or v2: the smallest of this group's and its parents'
  std::optional<int64_t> group_used_bytes;
  int64_t huge_page_total_bytes = 0;
  std::string transparent_huge_pages;  // "always", "madvise", "never" or ""
};
/// Reads /proc and /sys below `root` (tests give a directory of their own).
MemoryFacts read_memory_facts(const std::string& root = "");
/// The number of NUMA nodes that have cores, at least 1.
int num_memory_nodes(const std::string& root = "");

struct CpuFacts {
  std::string model;                  // as /proc/cpuinfo says it
  int num_logical = 0;                // of the machine
  int num_usable = 0;                 // by this process: affinity and control group quota; at least 1
  std::vector<std::string> features;  // those that matter to tern: "avx2", "avx512f", …
};
CpuFacts read_cpu_facts();

struct DiskFacts {
  int64_t free_bytes = 0;   // for this user
  std::string file_system;  // "ext4", "overlay", …; if tern does not know its name, the kernel's number of it
};
DiskFacts read_disk_facts(const std::string& path);
/// Refuses a folder whose files lie in memory (tmpfs). `option`: its name in the message: "--kv-dir". Errors: usage; bad_file: no such folder.
void require_on_disk(const std::string& folder, std::string_view option);

}  // namespace tern
