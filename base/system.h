#pragma once
// Facts about the machine this process sits on, and whether the C library keeps freed memory. Nothing measures speed.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tern {

struct MemoryFacts {
  int64_t total_bytes = 0;
  int64_t available_bytes = 0;               // MemAvailable, within the control group's limit
  std::optional<int64_t> group_limit_bytes;  // of cgroup v1 or v2, the tightest on the way up; absent: none
  std::optional<int64_t> group_used_bytes;
  int64_t huge_page_total_bytes = 0;
  std::string transparent_huge_pages;  // "always", "madvise", "never" or ""
};
/// Reads /proc and /sys below `root` (tests give a directory of their own).
MemoryFacts read_memory_facts(const std::string& root = "");
/// Nodes of memory with their own cores (NUMA), at least 1.
int num_memory_nodes(const std::string& root = "");

struct ProcessMemory {
  int64_t resident_bytes = 0;
  int64_t peak_resident_bytes = 0;
};
ProcessMemory read_process_memory();
/// What the program itself takes beside the tensors it counts: resident now, and what code pages, thread stacks and the
/// buffers of libraries still add once it works. Call before anything large is allocated.
int64_t program_bytes();
/// From now on the C library gives large blocks (128 KiB and more) back to the system when they are freed. Left alone, it
/// raises that bound to the size of each such block that is freed, and then keeps up to twice as much: memory that is resident,
/// but counted nowhere.
void return_freed_blocks();
/// The opposite, for work that makes and frees many tables and stays small: freed blocks under 256 MiB wait for the next ones, instead of
/// going back to the system and coming again page by page.
void keep_freed_blocks();
/// Lets the kernel forget the peak so far, so that a phase can be measured. False where it does not allow that.
bool reset_peak_resident();

struct CpuFacts {
  std::string model;                  // as /proc/cpuinfo says it
  int num_logical = 0;                // of the machine
  int num_usable = 0;                 // by affinity and control group quota, at least 1
  std::vector<std::string> features;  // of those tern cares about, what the CPU has: "avx2", "avx512f", …
};
CpuFacts read_cpu_facts();

struct DiskFacts {
  int64_t free_bytes = 0;   // for this user
  std::string file_system;  // "ext4", "overlay", … or a number
};
DiskFacts read_disk_facts(const std::string& path);

}  // namespace tern
