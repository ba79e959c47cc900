// tern bench: this machine's limits, and how close tern comes, as a table, JSON and a picture.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/bench.h"
#include "apps/bench_rounds.h"
#include "apps/common.h"
#include "apps/outputs.h"
#include "apps/signals.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/process_memory.h"
#include "base/progress.h"
#include "base/system.h"
#include "base/threads.h"
#include "base/units.h"
#include "infer/memory_fit.h"
#include "kernels/dispatch.h"
#include "kernels/onednn/fast_matmul.h"

namespace tern {
namespace {

Json machine_json() {
  const CpuFacts cpu = read_cpu_facts();
  const MemoryFacts memory = read_memory_facts();
  return {{"date", today()},
          {"tern", TERN_VERSION},
          {"cpu", cpu.model},
          {"logical_cpus", cpu.num_logical},
          {"threads", num_compute_threads()},
          {"instruction_set", name_of(active_isa())},
          {"training_multiplier", fast_matmul_name()},
          {"memory_bytes", memory.total_bytes}};
}

}  // namespace

int run_bench(const Options& options) {
  apply_threads(options);
  return_freed_blocks();  // oneDNN's kernels take blocks and free them
  const MemoryBudget budget = memory_budget(options);
  const BenchSettings settings{.rounds = static_cast<int>(options.integer("rounds")),
                               .disk = options.text("disk"),
                               .memory_bytes = budget.bytes,
                               .work = !options.flag("limits-only")};
  const std::string picture = options.text("output");
  check_writable(picture, "--output");
  log_info("preparing: buffers and models within {} ({})", format_bytes(budget.bytes), budget.source);
  std::vector<std::string> notes;
  std::vector<BenchTask> tasks = limit_tasks(settings, notes);
  if (settings.work)
    for (BenchTask& task : work_tasks(settings, notes)) tasks.push_back(std::move(task));
  for (const std::string& note : notes) log_info("{}", note);

  const StopSignals signals;
  std::vector<BenchResult> results;
  {
    Progress progress("bench", settings.rounds);
    results = run_rounds(tasks, settings.rounds, [&](int round) {
      progress.update(round, "rounds");
      return !stop_requested();
    });
    progress.update(static_cast<int64_t>(results.front().rates.size()), "rounds");
    progress.finish();
  }
  if (results.front().rates.empty()) return 128 + stop_signal();
  const Json machine = machine_json();
  if (options.flag("json")) {
    print_json({{"machine", machine},
                {"rounds", results.front().rates.size()},
                {"notes", notes},
                {"results", bench_json(results)}});
  } else {
    print_out(fmt::format("{}, {} threads, {}, {}; {}, {}\n\n", machine["cpu"].get<std::string>(),
                          num_compute_threads(), name_of(active_isa()), fast_matmul_name(),
                          counted(static_cast<int64_t>(results.front().rates.size()), "round"), today()));
    print_out(bench_text(results));
  }
  if (!picture.empty()) {  // after the figures, which a disk that is full now must not take along
    write_file_atomically(real_io(), picture, bench_roofline(results));
    log_info("roofline written to {}", picture);
  }
  return stop_requested() ? 128 + stop_signal() : 0;
}

}  // namespace tern
