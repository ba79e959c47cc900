#include "base/system.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/io.h"
#include "base/system_files_impl.h"
#include "base/text.h"

namespace tern {
namespace {

std::optional<int64_t> to_int(std::string_view text) {
  text = trim(text);
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

// This process's place in the hierarchy: of v2 the line "0::/path", of v1 that of the named controller.
std::string group_path(const std::string& root, std::string_view controller) {
  const std::string groups = read_system_file(root + "/proc/self/cgroup");
  for (const std::string_view line : split(groups, '\n')) {
    const auto parts = split(line, ':');
    if (parts.size() < 3) continue;
    const auto names = split(parts[1], ',');
    if (controller.empty() ? parts[1].empty() : std::find(names.begin(), names.end(), controller) != names.end())
      return std::string(line.substr(parts[0].size() + parts[1].size() + 2));
  }
  return "/";
}

// Walks from `path` up to the top of the hierarchy mounted at `mount` and keeps the tightest limit.
void read_group(const std::string& mount, std::string path, const char* limit_file, const char* used_file,
                MemoryFacts& facts) {
  for (;;) {
    const std::string dir = mount + (path == "/" ? "" : path);
    const auto limit = to_int(read_system_file(dir + limit_file));  // "max" is no number
    if (limit && *limit > 0 && *limit < (int64_t{1} << 60) &&
        (!facts.group_limit_bytes || *limit < *facts.group_limit_bytes)) {
      facts.group_limit_bytes = limit;
      facts.group_used_bytes = to_int(read_system_file(dir + used_file));
    }
    if (path == "/" || path.empty()) return;
    path = parent_path(path);
    if (path == ".") path = "/";
  }
}

// CPU quota of the control group in whole CPUs; absent: none.
std::optional<int> group_cpus() {
  std::optional<double> cpus;
  for (std::string path = group_path("", "");; path = parent_path(path)) {
    const std::string line =
        read_system_file("/sys/fs/cgroup" + (path == "/" ? "" : path) + "/cpu.max");  // "200000 100000" or "max 100000"
    const auto words = split_words(line);
    if (words.size() == 2)
      if (const auto quota = to_int(words[0]), period = to_int(words[1]); quota && period && *period > 0)
        cpus = std::min(cpus.value_or(1e9), static_cast<double>(*quota) / static_cast<double>(*period));
    if (path == "/" || path == "." || path.empty()) break;
  }
  const auto quota = to_int(read_system_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")),
             period = to_int(read_system_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
  if (quota && period && *quota > 0 && *period > 0)
    cpus = std::min(cpus.value_or(1e9), static_cast<double>(*quota) / static_cast<double>(*period));
  if (!cpus) return std::nullopt;
  return std::max(1, static_cast<int>(std::ceil(*cpus)));
}

}  // namespace

MemoryFacts read_memory_facts(const std::string& root) {
  MemoryFacts facts;
  const std::string meminfo = read_system_file(root + "/proc/meminfo");
  facts.total_bytes = field_bytes(meminfo, "MemTotal");
  facts.available_bytes = field_bytes(meminfo, "MemAvailable");
  facts.huge_page_total_bytes = field_bytes(meminfo, "HugePages_Total") * field_bytes(meminfo, "Hugepagesize");
  const std::string thp =
      read_system_file(root + "/sys/kernel/mm/transparent_hugepage/enabled");  // "always [madvise] never"
  const size_t open = thp.find('['), close = thp.find(']');
  if (open != std::string::npos && close != std::string::npos)
    facts.transparent_huge_pages = thp.substr(open + 1, close - open - 1);
  read_group(root + "/sys/fs/cgroup", group_path(root, ""), "/memory.max", "/memory.current", facts);
  read_group(root + "/sys/fs/cgroup/memory", group_path(root, "memory"), "/memory.limit_in_bytes",
             "/memory.usage_in_bytes", facts);
  if (facts.group_limit_bytes) {
    const int64_t left = std::max<int64_t>(0, *facts.group_limit_bytes - facts.group_used_bytes.value_or(0));
    facts.available_bytes = std::min(facts.available_bytes, left);
  }
  return facts;
}

int num_memory_nodes(const std::string& root) {
  int nodes = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/sys/devices/system/node", ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("node") || name.find_first_not_of("0123456789", 4) != std::string::npos) continue;
    const std::string cpus(trim(read_system_file(entry.path().string() + "/cpulist")));
    nodes += name.size() > 4 && !cpus.empty();
  }
  return std::max(1, nodes);
}

CpuFacts read_cpu_facts() {
  CpuFacts facts;
  const std::string cpuinfo = read_system_file("/proc/cpuinfo");
  for (const std::string_view line : split(cpuinfo, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = trim(line.substr(0, colon)), value = trim(line.substr(colon + 1));
    if (facts.model.empty() && (key == "model name" || key == "Processor" || key == "CPU implementer"))
      facts.model = value;
    if (!facts.features.empty() || (key != "flags" && key != "Features")) continue;
    const auto words = split_words(value);
    for (const std::string_view feature :
         {"sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi",
          "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8", "asimd", "sve", "bf16"})
      if (std::find(words.begin(), words.end(), feature) != words.end()) facts.features.emplace_back(feature);
  }
  facts.num_logical = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  facts.num_usable = facts.num_logical;
  for (int size = 1024; size <= 1 << 16; size *= 2) {  // a mask too small for the machine gives EINVAL
    cpu_set_t* mask = CPU_ALLOC(static_cast<size_t>(size));
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(size));
    CPU_ZERO_S(bytes, mask);
    const bool ok = ::sched_getaffinity(0, bytes, mask) == 0;
    if (ok) facts.num_usable = std::max(1, CPU_COUNT_S(bytes, mask));
    CPU_FREE(mask);
    if (ok) break;
  }
  if (const auto quota = group_cpus()) facts.num_usable = std::min(facts.num_usable, *quota);
  return facts;
}

DiskFacts read_disk_facts(const std::string& path) {
  struct statvfs space {};
  struct statfs kind {};
  if (::statvfs(path.c_str(), &space) != 0 || ::statfs(path.c_str(), &kind) != 0)
    throw_io_error("look at", path, errno);
  DiskFacts facts;
  facts.free_bytes = static_cast<int64_t>(space.f_bavail) * static_cast<int64_t>(space.f_frsize);
  switch (static_cast<uint64_t>(kind.f_type) & 0xFFFFFFFFu) {
    case 0xEF53:
      facts.file_system = "ext4";
      break;
    case 0x58465342:
      facts.file_system = "xfs";
      break;
    case 0x9123683E:
      facts.file_system = "btrfs";
      break;
    case 0x794C7630:
      facts.file_system = "overlay";
      break;
    case 0x01021994:
      facts.file_system = "tmpfs";
      break;
    case 0x6969:
      facts.file_system = "nfs";
      break;
    case 0x2FC12FC1:
      facts.file_system = "zfs";
      break;
    default:
      facts.file_system = fmt::format("0x{:x}", static_cast<uint64_t>(kind.f_type));
      break;
  }
  return facts;
}

void require_on_disk(const std::string& folder, std::string_view option) {
  if (read_disk_facts(folder).file_system == "tmpfs")
    throw Error(ErrorKind::usage, "{}: its files lie in memory (tmpfs); give {} a folder on a disk", folder, option);
}

}  // namespace tern
