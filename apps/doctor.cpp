// `tern doctor`: what this machine offers and what to mend. Each line: ok or warn, the fact, and for a warning the fix.
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common.h"
#include "apps/options.h"
#include "apps/threads.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/json.h"
#include "base/system.h"
#include "base/text.h"
#include "base/units.h"
#include "kernels/dispatch.h"
#include "kernels/onednn/fast_matmul.h"
#include "kernels/onednn/onednn_matmul.h"

namespace tern {
namespace {

struct Finding {
  std::string topic, fact, fix;  // no fix: all is well
};

void check_cpu(std::vector<Finding>& out) {
  const CpuFacts cpu = read_cpu_facts();
  out.push_back({"cpu",
                 fmt::format("{}; {} logical CPUs, {} usable here", cpu.model.empty() ? "unknown" : cpu.model,
                             cpu.num_logical, cpu.num_usable),
                 ""});
  out.push_back({"cpu features", cpu.features.empty() ? "none of those tern knows" : join(cpu.features, " "), ""});
  try {
    const Options o = resolve_options(tern_options(), "bench", {}, process_environment());
    const bool said = o.has("threads");
    out.push_back({"threads",
                   fmt::format("{} compute threads{} unless --threads says otherwise",
                               set_compute_threads(said ? static_cast<int>(o.integer("threads")) : 0),
                               said ? " by TERN_THREADS" : ""),
                   ""});
  } catch (const Error&) {}  // check_environment tells it
}

void check_isa(std::vector<Finding>& out) {
  const std::vector<IsaStatus> report = isa_report();  // all at once, before the choice tests the best alone
  std::optional<Isa> active;
  std::string wrong;
  try {
    active = active_isa();
  } catch (const Error& error) { wrong = error.what(); }
  for (const IsaStatus& status : report) {
    const bool failed = status.compiled && status.supported && !status.self_test_passed;
    out.push_back({fmt::format("kernels {}", name_of(status.isa)),
                   fmt::format("{}{}", status.reason, active == status.isa ? "; in use" : ""),
                   failed           ? "this set computes wrongly here and is not used: please report the CPU"
                   : status.refused ? "the processor has it: ask whoever runs this system or container to allow it"
                                    : ""});
  }
  if (!active) return out.push_back({"kernels", wrong, "unset TERN_ISA"});
  for (const MatmulChoice& choice : fast_matmul_choices()) out.push_back({"training products", choice.text, ""});
}

void check_memory(std::vector<Finding>& out) {
  const MemoryFacts memory = read_memory_facts();
  out.push_back(
      {"memory",
       fmt::format("{} available of {}", format_bytes(memory.available_bytes), format_bytes(memory.total_bytes)),
       memory.available_bytes < (int64_t{1} << 30) ? "less than 1 GiB: close programs, or use small models and --memory"
                                                   : ""});
  if (memory.group_limit_bytes)
    out.push_back({"memory limit",
                   fmt::format("{} by control group, {} used", format_bytes(*memory.group_limit_bytes),
                               format_bytes(memory.group_used_bytes.value_or(0))),
                   ""});
  const std::string& thp = memory.transparent_huge_pages;
  out.push_back({"huge pages",
                 fmt::format("transparent: {}; reserved: {}", thp.empty() ? "unknown" : thp,
                             format_bytes(memory.huge_page_total_bytes)),
                 thp == "never"
                     ? "copied weights (--weights, chat) and training lie on small pages; for huge ones: echo "
                       "madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
                     : ""});
  if (const int nodes = num_memory_nodes(); nodes > 1)
    out.push_back({"memory nodes",
                   fmt::format("{}: a page lies on the node of the thread that first wrote it, and tern neither binds "
                               "threads nor places tensors",
                               nodes),
                   "numactl --interleave=all tern … spreads pages over the nodes; numactl --cpunodebind=0 --membind=0 "
                   "tern … keeps to one"});
}

void check_limits(std::vector<Finding>& out) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  out.push_back({"open files", files.rlim_cur == RLIM_INFINITY ? "no limit" : fmt::format("at most {}", files.rlim_cur),
                 files.rlim_cur < 256 ? "sharded models need more: ulimit -n 1024" : ""});
  rlimit size{};
  getrlimit(RLIMIT_FSIZE, &size);
  if (size.rlim_cur != RLIM_INFINITY)
    out.push_back({"file size", fmt::format("at most {}", format_bytes(static_cast<int64_t>(size.rlim_cur))),
                   "checkpoints may be larger: ulimit -f unlimited"});
}

void check_disk(std::vector<Finding>& out) {
  const DiskFacts disk = read_disk_facts(".");
  out.push_back({"disk", fmt::format("{} free here, {}", format_bytes(disk.free_bytes), disk.file_system),
                 disk.free_bytes < (int64_t{1} << 30) ? "less than 1 GiB: free space, or give --output on another disk"
                 : disk.file_system == "tmpfs"        ? "this is memory: what is written here is gone after a restart"
                                                      : ""});
}

// Symbols asked for at run time, so that a build without the library answers too.
void check_libraries(std::vector<Finding>& out) {
  std::vector<std::string> versions = {
      fmt::format("tern {}", TERN_VERSION),
      fmt::format("fmt {}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100),
      fmt::format("nlohmann-json {}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                  NLOHMANN_JSON_VERSION_PATCH)};
  std::string advice;
  try {
    versions.push_back(onednn_version().empty() ? "oneDNN absent" : fmt::format("oneDNN {}", onednn_version()));
  } catch (const Error& e) { versions.emplace_back("oneDNN absent"), advice = e.what(); }
  if (const auto onig = reinterpret_cast<const char* (*)()>(::dlsym(RTLD_DEFAULT, "onig_version")))
    versions.push_back(fmt::format("Oniguruma {}", onig()));
  if (const auto utf8 = reinterpret_cast<const char* (*)()>(::dlsym(RTLD_DEFAULT, "utf8proc_version")))
    versions.push_back(fmt::format("utf8proc {}", utf8()));
  out.push_back({"libraries", join(versions, ", "), advice});
  utsname system{};
  ::uname(&system);
  out.push_back({"system",
                 fmt::format("{} {} {}; compiler {}", system.sysname, system.release, system.machine, __VERSION__),
                 ""});
}

void check_environment(std::vector<Finding>& out) {
  const OptionTable& table = tern_options();
  std::vector<std::string> set;
  for (const auto& [name, value] : process_environment())
    if (name.starts_with("TERN_") && !value.empty()) set.push_back(fmt::format("{}={}", name, make_printable(value)));
  std::string fix;
  try {
    for (const char* verb : {"doctor", "bench"}) resolve_options(table, verb, {}, process_environment());
    static_cast<void>(active_isa());  // reads TERN_ISA
  } catch (const Error& error) { fix = error.what(); }
  out.push_back({"environment", set.empty() ? "no TERN_ variable is set" : join(set, " "), fix});
  for (const char* name : {"OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES"})
    if (const char* value = std::getenv(name))
      out.push_back({"environment", fmt::format("{}={}", name, make_printable(value)),
                     std::string_view(name) == "OMP_NUM_THREADS"
                         ? "tern sets the number itself: use --threads or TERN_THREADS, and unset this"
                         : ""});
}

}  // namespace

int run_doctor(const Options& options) {
  std::vector<Finding> findings;
  for (const auto check :
       {check_cpu, check_isa, check_memory, check_limits, check_disk, check_libraries, check_environment})
    check(findings);
  if (options.flag("json")) {
    Json json = {{"version", TERN_VERSION}, {"findings", Json::array()}};
    for (const Finding& f : findings)
      json["findings"].push_back(
          {{"topic", f.topic}, {"status", f.fix.empty() ? "ok" : "warn"}, {"fact", f.fact}, {"fix", f.fix}});
    print_json(json);
    return 0;
  }
  int warnings = 0;
  for (const Finding& f : findings) {
    warnings += !f.fix.empty();
    print_out(fmt::format("{:<4}  {:<20}  {}\n", f.fix.empty() ? "ok" : "warn", f.topic, f.fact));
    if (!f.fix.empty()) print_out(fmt::format("{:<28}fix: {}\n", "", f.fix));
  }
  print_out(warnings == 0 ? "\nAll is well. Next: tern demo\n"
                          : fmt::format("\n{} to look at; the rest is well. Next: tern demo\n", warnings));
  return 0;
}

}  // namespace tern
