// tern profile: this machine, measured, as a cluster file; or what nccl-tests measured, as links of one.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>

#include "apps/common.h"
#include "apps/given_options.h"
#include "apps/nccl_links.h"
#include "apps/nccl_tests.h"
#include "apps/outputs.h"
#include "apps/profile.h"
#include "apps/profile_file.h"
#include "apps/read_text.h"
#include "apps/signals.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/process_memory.h"
#include "base/progress.h"
#include "base/shell.h"
#include "base/system.h"
#include "base/text.h"
#include "base/threads.h"
#include "base/units.h"
#include "hardware/cluster.h"
#include "infer/memory_fit.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

ProfiledMachine this_machine(const std::string& disk) {
  const MemoryFacts memory = read_memory_facts();
  const DiskFacts disk_facts = read_disk_facts(disk);
  ProfiledMachine m{.name = read_cpu_facts().model,
                    .date = today(),
                    .tern = TERN_VERSION,
                    .isa = std::string(name_of(active_isa())),
                    .threads = num_compute_threads(),
                    .cpus = read_cpu_facts().num_usable};
  m.memory_bytes =
      memory.group_limit_bytes ? std::min(*memory.group_limit_bytes, memory.total_bytes) : memory.total_bytes;
  m.reserved_bytes = std::max<int64_t>(0, m.memory_bytes - memory.available_bytes) + program_bytes();
  m.disk_bytes = disk_facts.free_bytes;
  return m;
}

// --- --import: links, from what nccl-tests printed ---

Json links_json(const std::vector<ImportedTest>& all) {
  Json list = Json::array();
  for (const ImportedTest& one : all)
    list.push_back({{"file", one.path},
                    {"collective", one.test.collective},
                    {"ranks", one.test.ranks},
                    {"hosts", one.test.hosts},
                    {"rows", one.test.rows.size()},
                    {"bandwidth", one.fit.bandwidth},
                    {"latency_s", one.fit.latency_s},
                    {"median_error", one.fit.median_error},
                    {"worst_error", one.fit.worst_error},
                    {"best_bus_bandwidth", one.fit.best_busbw}});
  return list;
}

int import_links(const Options& options) {
  constexpr std::string_view kRead[]{"import", "output", "json"};
  refuse_given_but(options, kRead, "is of measuring, and --import measures nothing; leave it out");
  std::vector<ImportedTest> all;
  for (const std::string& path : options.list("import")) {
    ImportedTest one{.path = path, .test = parse_nccl_tests(read_text(path), path)};
    one.fit = fit_links(one.test);
    if (const std::string doubt = doubt_of(one); !doubt.empty()) log_warn("{}: {}", path, doubt);
    all.push_back(std::move(one));
  }
  const std::string toml = links_toml(all);
  if (const std::string output = options.text("output"); !output.empty()) {
    write_file_atomically(real_io(), output, toml);
    log_info("wrote {}", output);
  } else if (!options.flag("json")) {
    print_out(toml);
  }
  if (options.flag("json")) print_json(links_json(all));
  return 0;
}

void print_summary(const Cluster& c, const std::vector<BenchResult>& results, const std::string& output) {
  const DeviceType& d = c.devices.front();
  const NodeType& n = c.nodes.front();
  std::string peaks;
  DType fastest = DType::f32;
  double most = 0;
  for (const auto& [dtype, rate] : d.peak) {
    peaks += fmt::format("{}{} {:.0f} GFLOP/s", peaks.empty() ? "" : ", ", name_of(dtype), rate / 1e9);
    if (rate > most && (dtype == DType::f32 || dtype == DType::bf16)) most = rate, fastest = dtype;
  }
  print_out(fmt::format("{}\nproducts   {} at most\nmemory     {:.1f} GB/s; {} for a program\n", c.name, peaks,
                        d.memory_bandwidth / 1e9, format_bytes(d.memory_bytes - d.reserved_bytes)));
  if (n.disk_bytes > 0)
    print_out(fmt::format("disk       {:.2f} GB/s read, {:.2f} GB/s written\n", n.disk_read / 1e9, n.disk_write / 1e9));
  print_out(fmt::format("{:<10} {:.1f} GB/s, {:.1f} us\n", n.link.name, n.link.bandwidth / 1e9,
                        static_cast<double>(n.link.latency_ps) / 1e6));
  const ProfileNoise noise = profile_noise(results);
  const size_t rounds = results.front().rates.size();
  print_out(!noise.told ? fmt::format("spread     not known from {}\n", counted(static_cast<int64_t>(rounds), "round"))
                        : fmt::format("spread     {} of {} figures by more than 10 % over {}\n", noise.wide,
                                      noise.figures, counted(static_cast<int64_t>(rounds), "round")));
  if (!output.empty())
    print_out(
        fmt::format("\ntry: {} plan MODEL --hardware {} --batch 16 --seq 256 --dtype {}\n"
                    "  MODEL is a preset such as gpt2, or a model's folder\n",
                    program_name(), shell_quoted(output), name_of(fastest)));
}

}  // namespace

int run_profile(const Options& options) {
  if (options.has("import")) return import_links(options);
  const int ranks = static_cast<int>(options.integer("ranks"));
  if (ranks == 1 && options.given("transport"))
    throw Error(ErrorKind::usage, "--transport is of --ranks, and one rank talks to nobody; leave it out");
  int threads = apply_threads(options);
  if (ranks > 1 && !options.has("threads")) threads = std::max(1, threads / ranks);
  return_freed_blocks();  // oneDNN's kernels take blocks and free them
  const std::string& output = options.text("output");
  std::string disk = options.text("disk");
  if (disk.empty()) disk = output.empty() ? "." : parent_path(output);
  if (disk.empty()) disk = ".";
  check_writable(output, "--output");
  const MemoryBudget budget = memory_budget(options);
  ProfiledMachine machine = this_machine(disk);
  const TeamLinks links = options.text("transport") == "tcp" ? TeamLinks::tcp : TeamLinks::memory;
  machine.ranks = ranks, machine.threads = threads, machine.links = links;
  if (const std::string shared = shared_cpus(machine); !shared.empty()) log_warn("{}", shared);
  const bool quick = options.flag("quick");
  const int rounds = static_cast<int>(options.has("rounds") ? options.integer("rounds") : quick ? 3 : 5);
  log_info("preparing: buffers, and two files of 256 MiB under {} that are removed again", disk);
  const ProfileSettings settings{.quick = quick,
                                 .disk = disk,
                                 .memory_bytes = budget.bytes,
                                 .ranks = ranks,
                                 .threads = threads,
                                 .cpus = machine.cpus,
                                 .links = links};
  const ProfileTasks tasks = ranks > 1 ? profile_tasks_of_ranks(settings) : profile_tasks(settings);
  for (const std::string& note : tasks.notes) log_warn("{}", note);
  const StopSignals signals;
  std::vector<BenchResult> results;
  {
    Progress progress("profile", rounds);
    results = run_rounds(tasks.tasks, rounds, [&](int round) {
      progress.update(round, "rounds");
      return !stop_requested();
    });
    progress.update(static_cast<int64_t>(results.front().rates.size()), "rounds");
    progress.finish();
  }
  if (stop_requested()) return 128 + stop_signal();  // a file of fewer rounds than were asked for would look finished
  const std::string toml = profile_toml(tasks, results, machine);
  const Cluster cluster = parse_cluster(toml, output.empty() ? "the profile" : output);
  if (!output.empty()) {
    write_file_atomically(real_io(), output, toml);
    log_info("wrote {}", output);
  }
  if (options.flag("json"))
    print_json({{"machine", cluster.name}, {"rounds", rounds}, {"results", bench_json(results)}});
  else if (output.empty())
    print_out(toml);
  else
    print_summary(cluster, results, output);
  if (const std::string noise = describe(profile_noise(results)); !noise.empty()) log_warn("{}", noise);
  return 0;
}

}  // namespace tern
