// How many configurations that a person might write down fail: every one of a stated space, priced by `tern plan --fix`
// with all axes given.
//
//   default_failures [BATCH] [SEQ]
//
// The space: tensor × pipeline × data = all devices, every factorisation; micro-batches of 1, 2, 4, 8 sequences; GPipe
// or 1F1B (one stage: once); ZeRO 0 to 3; recompute none or everything; equal blocks per stage.
// invalid: a rule of the model or of the batch is broken; out of memory: proven, else undecided (none of these prices
// leaves any: all axes are given, and the exit code is 1 if one does); slow: above 1.5 times the best of the space.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "hardware/cluster.h"
#include "hardware/machines.h"
#include "planner/outer/plan_model.h"
#include "spec/presets.h"
#include "spec/recompute.h"

namespace {

using namespace tern;

constexpr double kSlow = 1.5;
struct Counts {
  int64_t all = 0, invalid = 0, out_of_memory = 0, undecided = 0, slow = 0, fine = 0;
  std::vector<int64_t> steps;
  std::string best;
};

std::vector<PinnedAxes> configurations(int64_t devices) {
  std::vector<PinnedAxes> out;
  for (int64_t tensor = 1; tensor <= devices; ++tensor)
    for (int64_t stages = 1; stages <= devices; ++stages) {
      if (devices % (tensor * stages)) continue;
      for (const int64_t micro : {1, 2, 4, 8})
        for (const PipelineSchedule schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b})
          for (const int zero : {0, 1, 2, 3})
            for (const Recompute recompute : {Recompute::none, Recompute::full}) {
              if (stages == 1 && schedule == PipelineSchedule::gpipe) continue;
              PinnedAxes p{.tensor = tensor, .context = 1, .data = devices / (tensor * stages), .expert = 1};
              p.expert_tensor = 1, p.stages = stages, p.chunks = 1, p.micro_batch = micro;
              p.schedule = schedule, p.zero = zero, p.recompute = recompute;
              p.states = p.activations = Tier::device;
              p.even = true;
              out.push_back(p);
            }
    }
  return out;
}

Counts count(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request) {
  Counts c;
  int64_t best = INT64_MAX;
  for (const PinnedAxes& axes : configurations(cluster.num_devices())) {
    ++c.all;
    PlanRequest one = request;
    one.space = pin({}, axes);
    try {
      const PlanAnswer a = plan_model(spec, cluster, one);
      if (!a.found) {
        ++(a.proven_infeasible ? c.out_of_memory : c.undecided);
        continue;
      }
      c.steps.push_back(a.plan.step_ps);
      if (a.plan.step_ps < best) best = a.plan.step_ps, c.best = to_string(axes);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::usage) throw;
      ++c.invalid;
    }
  }
  for (const int64_t step : c.steps)
    ++(static_cast<double>(step) > kSlow * static_cast<double>(best) ? c.slow : c.fine);
  return c;
}

}  // namespace

int main(int argc, char** argv) {
  PlanRequest request;
  const int64_t seq = argc > 2 ? std::atol(argv[2]) : 2048;
  request.job.batch = argc > 1 ? std::atol(argv[1]) : 128;
  try {
    std::printf(
        "| model | cluster | configurations | invalid | out of memory | slow | fine | fail | best of them | tern plan "
        "|\n");
    std::printf("|---|---|---|---|---|---|---|---|---|---|\n");
    for (const char* machine : {"v100", "a100-80g", "h100"})
      for (const char* model : {"gpt2-xl", "llama-2-7b", "llama-2-13b", "llama-3-70b"}) {
        const ModelSpec spec = *preset_model(model);
        const Cluster cluster = with_nodes(find_cluster(machine), 4);
        request.model = model;
        const int64_t learned = learned_positions(spec);
        request.job.seq = learned > 0 ? std::min(seq, learned) : seq;
        const auto& peaks = cluster.devices.front().peak;
        const bool narrow =
            std::any_of(peaks.begin(), peaks.end(), [](const auto& p) { return p.first == DType::bf16; });
        request.job.dtype = narrow ? DType::bf16 : DType::f16;
        const Counts c = count(spec, cluster, request);
        PlanRequest free = request;
        free.space.states = free.space.activations = {Tier::device};
        free.seconds = 10;
        const PlanAnswer ours = plan_model(spec, cluster, free);
        const auto percent = [&](int64_t n) { return 100.0 * static_cast<double>(n) / static_cast<double>(c.all); };
        int64_t best = 0;
        for (const int64_t s : c.steps) best = best == 0 ? s : std::min(best, s);
        std::printf("| %s | %lld × %s | %lld | %.1f %% | %.1f %% | %.1f %% | %.1f %% | **%.1f %%** | %s | %s |\n",
                    model, static_cast<long long>(cluster.num_devices()), machine, static_cast<long long>(c.all),
                    percent(c.invalid), percent(c.out_of_memory), percent(c.slow), percent(c.fine),
                    percent(c.all - c.fine),
                    best ? std::to_string(static_cast<double>(best) * 1e-12).c_str() : "none fits",
                    ours.found ? std::to_string(static_cast<double>(ours.plan.step_ps) * 1e-12).c_str() : "none");
        std::fflush(stdout);
        if (c.undecided > 0) {
          std::fprintf(stderr,
                       "default_failures: %lld configurations of %s on %s are neither priced nor proven to lack room\n",
                       static_cast<long long>(c.undecided), model, machine);
          return 1;
        }
      }
  } catch (const tern::Error& e) {
    std::fprintf(stderr, "default_failures: %s\n", e.what());
    return 1;
  }
  return 0;
}
