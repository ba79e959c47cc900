// Times the exact search on random instances, one thread unless said: median and worst over the seeds, with both gaps.
//
//   time_search CASE [SEEDS] [THREADS] [SECONDS]     CASE: unlike, unlike-tails, equal, equal-ends, …; without: their
//   list

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/error.h"
#include "planner/instance/random_instance.h"
#include "planner/instance/search.h"

namespace {

using tern::RandomInstance;

struct Case {
  const char* name;
  const char* story;
  RandomInstance instance;
};

const Case kCases[] = {
    {"unlike",
     "96 unlike layers, 8 strategies, 8 stages, 32 micro-batches, dense resharding",
     {.layers = 96, .strategies = 8, .stages = 8, .micro = 32, .memory = 0.35, .scale = 1000}},
    {"unlike-tails",
     "the same with gradient synchronisation and updates",
     {.layers = 96, .strategies = 8, .stages = 8, .micro = 32, .tails = true, .memory = 0.35, .scale = 1000}},
    {"equal",
     "1,000 equal layers, 16 strategies (4 layouts x 4), 64 stages, 1,000 micro-batches",
     {.layers = 1000,
      .strategies = 16,
      .stages = 64,
      .micro = 1000,
      .equal_layers = true,
      .layouts = 4,
      .memory = 0.35,
      .scale = 1000}},
    {"equal-ends",
     "the same with an embedding and a head",
     {.layers = 1000,
      .strategies = 16,
      .stages = 64,
      .micro = 1000,
      .equal_layers = true,
      .ends = true,
      .layouts = 4,
      .memory = 0.35,
      .scale = 1000}},
    {"equal-dense",
     "the same as equal, but every two strategies reshard at a cost of their own",
     {.layers = 1000,
      .strategies = 16,
      .stages = 64,
      .micro = 1000,
      .equal_layers = true,
      .memory = 0.35,
      .scale = 1000}},
    {"small",
     "24 unlike layers, 6 strategies, 4 stages, 8 micro-batches",
     {.layers = 24, .strategies = 6, .stages = 4, .micro = 8, .memory = 0.35, .scale = 1000}},
    {"blocks",
     "128 equal layers, 32 strategies, 16 stages, 128 micro-batches",
     {.layers = 128,
      .strategies = 32,
      .stages = 16,
      .micro = 128,
      .equal_layers = true,
      .memory = 0.35,
      .scale = 1000}},
    {"free",
     "128 equal layers, 40 strategies, 8 stages, 64 micro-batches, free resharding, tails",
     {.layers = 128,
      .strategies = 40,
      .stages = 8,
      .micro = 64,
      .equal_layers = true,
      .ends = true,
      .resharding = false,
      .tails = true,
      .memory = 0.35,
      .scale = 1000}},
};

}  // namespace

int main(int argc, char** argv) {
  const Case* chosen = nullptr;
  for (const Case& c : kCases)
    if (argc > 1 && std::string(argv[1]) == c.name) chosen = &c;
  if (!chosen) {
    for (const Case& c : kCases) std::printf("%-14s %s\n", c.name, c.story);
    return 2;
  }
  const int seeds = argc > 2 ? std::atoi(argv[2]) : 20;
  tern::SearchOptions options{.threads = argc > 3 ? std::atoi(argv[3]) : 1};
  if (argc > 4 && std::atof(argv[4]) > 0) options.seconds = std::atof(argv[4]);
  if (argc > 5) options.simulations = std::atol(argv[5]);
  std::printf("%s\n%4s %9s %9s %9s %9s %16s %10s %10s %12s\n", chosen->story, "seed", "cpu s", "wall s", "rounds",
              "simulated", "makespan", "model gap", "sim. gap", "labels");
  std::vector<double> times;
  for (int seed = 0; seed < seeds; ++seed) {
    const tern::Instance in = tern::random_instance(chosen->instance, static_cast<uint64_t>(seed));
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu = std::clock();
    const tern::SearchResult r = tern::search(in, options);
    times.push_back(static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%4d %9.3f %9.3f %9ld %9ld %16ld %9.4f%% %9.4f%% %12ld%s\n", seed, times.back(), wall,
                static_cast<long>(r.counts.rounds), static_cast<long>(r.counts.simulated),
                static_cast<long>(r.makespan_ps), 100 * r.model_gap(), 100 * r.simulator_gap(),
                static_cast<long>(r.counts.labels),
                r.infeasible    ? " nothing fits"
                : r.interrupted ? " interrupted"
                                : "");
    std::fflush(stdout);
  }
  std::sort(times.begin(), times.end());
  std::printf("CPU: median %.3f s, worst %.3f s over %d seeds\n", times[times.size() / 2], times.back(), seeds);
  return 0;
}
