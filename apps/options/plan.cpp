// What tern plan is asked for, the space it searches, and what is made of its answer.
#include "apps/options/rows.h"

#include <fmt/format.h>

#include <string>

#include "base/units.h"
#include "plan/plan_axes.h"
#include "planner/outer/effort.h"
#include "spec/pipeline_schedule.h"

namespace tern {
namespace {

// The help of lists that tables elsewhere hold.
std::string_view schedules_help() {
  static const std::string help = [] {
    std::string text;
    for (const PipelineSchedule s : kPipelineSchedules)
      text += fmt::format("{}{}", text.empty() ? "of " : ",", name_of(s));
    return text + "; not given: all";
  }();
  return help;
}

std::vector<std::string_view> efforts() {
  std::vector<std::string_view> names;
  for (const EffortLimits& e : kEffortLimits) names.push_back(e.name);
  return names;
}

std::string_view effort_help() {
  static const std::string help = [] {
    std::string text = "how far the search goes before it stops with a gap:";
    for (const EffortLimits& e : kEffortLimits)
      text += fmt::format("{} {} {} and {} GB", &e == kEffortLimits.data() ? "" : ",", e.name,
                          format_seconds(e.seconds), e.memory_bytes / 1'000'000'000);
    return text + "; seconds are --max-seconds where that is given";
  }();
  return help;
}

std::string_view fix_help() {
  static const std::string help = [] {
    std::string text = "give some axes and search the rest: tp=8,pp=4,dp=2,schedule=1f1b …; axes:";
    for (const PlanAxis& a : plan_axes()) text += fmt::format(" {}", a.name);
    return text + " layers (even: equal blocks per stage, one strategy); all given: one configuration is priced";
  }();
  return help;
}

}  // namespace

// One row, one line.
// clang-format off
OptionRows plan_rows() {
  using enum OptionType;
  return {
      // What is asked.
      {.name = "hardware", .verbs = "plan", .type = path, .unit = "FILE", .help = "cluster file: nodes, devices, memory, links, rates; or a ready machine such as h100, a100-80g, rtx4090 (`tern help machines`)"},
      {.name = "nodes", .verbs = "plan", .type = integer, .unit = "N", .help = "how many of the file's nodes to use, where all are of one type; not given: as the file says", .min = 1, .max = kMaxCount},
      {.name = "batch", .verbs = "plan", .type = integer, .unit = "SEQUENCES", .help = "sequences per step, over all devices", .min = 1, .max = kMaxCount},
      {.name = "batches", .verbs = "plan", .type = text, .unit = "RANGE", .help = "instead of --batch: FIRST:LAST (doubling) or FIRST:LAST:STEP; each is planned, and the one with most tokens/s taken"},
      {.name = "seq", .verbs = "plan", .type = integer, .unit = "TOKENS", .help = "length of a sequence; an encoder reads as many beside its decoder, and tokens/s counts one side", .min = 1, .max = kMaxCount},
      {.name = "lengths", .verbs = "plan", .type = path, .unit = "FILE", .help = "lengths of the data's sequences, one to a line, or length,count: attention, padding, real tokens and the slowest rank are priced by them; not given: every sequence is --seq long"},
      {.name = "batching", .verbs = "plan", .type = choice, .fallback = "packed", .help = "of --lengths: packed: laid end to end and cut into windows of --seq, attention inside each sequence alone (as tern train does); padded: one to a window, filled up or cut to --seq", .choices = {"packed", "padded"}},
      {.name = "output", .verbs = "plan", .type = path, .unit = "FILE", .help = "write the plan here, as JSON"},
      {.name = "dtype", .verbs = "plan", .type = choice, .fallback = "bf16", .help = "type of weights and activations", .choices = {"f32", "bf16", "f16", "f64"}},
      {.name = "gradients", .verbs = "plan", .type = choice, .fallback = "f32", .help = "type gradients are kept and reduced in; f16: with --dtype f16 alone, and the default under a calibration in f16, whose runs kept them so", .choices = {"f32", "bf16", "f64", "f16"}},
      {.name = "optimizer", .verbs = "plan", .type = choice, .fallback = "adamw", .help = "update rule, for its states' bytes", .choices = update_rule_names()},
      {.name = "adapters", .verbs = "plan", .type = integer, .unit = "RANK", .help = "freeze the model, train low-rank products of this rank in its layers", .min = 1, .max = 65536},
      {.name = "capacity-factor", .verbs = "plan", .type = real, .fallback = "1.25", .unit = "X", .help = "mixtures of experts: rows an expert's rank makes room for, as a multiple of an even share", .min = 1, .max = 64},
      {.name = "tp-comm-overlap", .verbs = "plan", .type = flag, .help = "tensor parallelism: price exchanges of rows by halves, beside the products that read or make them; tern train --plan then exchanges them so"},
      {.name = "effort", .verbs = "plan", .type = choice, .fallback = "normal", .help = effort_help(), .choices = efforts()},
      {.name = "max-seconds", .verbs = "plan", .type = seconds, .unit = "TIME", .help = "stop searching after this time and state the gap; not given: as --effort says; --certify may take as long again, without it as long as it needs", .min = 0, .above_min = true},
      // The space it is looked for in.
      {.name = "max-tensor", .verbs = "plan", .type = integer, .unit = "N", .help = "widest tensor parallelism; not given: 64", .min = 1, .max = 65536},
      {.name = "max-context", .verbs = "plan", .type = integer, .unit = "N", .help = "widest context parallelism; not given: 64", .min = 1, .max = 65536},
      {.name = "max-stages", .verbs = "plan", .type = integer, .unit = "N", .help = "most pipeline stages; not given: 1024, with --inference 16", .min = 1, .max = 65536},
      {.name = "max-chunks", .verbs = "plan", .type = integer, .unit = "N", .help = "most chunks per stage of interleaved pipelines; not given: 8", .min = 1, .max = 1024},
      {.name = "max-micro-batch", .verbs = "plan", .type = integer, .unit = "N", .help = "most sequences per micro-batch and data rank; not given: 16", .min = 1, .max = 65536},
      {.name = "schedules", .verbs = "plan", .type = text, .unit = "LIST", .help = schedules_help()},
      {.name = "zero", .verbs = "plan", .type = text, .unit = "LIST", .help = "ZeRO stages allowed, of 0,1,2,3; not given: all"},
      {.name = "allow-recompute", .verbs = "plan", .type = text, .unit = "LIST", .help = "per layer, of none,attention,full; not given: all"},
      {.name = "offload", .verbs = "plan", .type = choice, .fallback = "none", .help = "what may live on the host or on disk; more than none takes longer to prove; with --inference all unless given, of weights, keys and values", .choices = {"all", "states", "activations", "none"}},
      {.name = "fix", .verbs = "plan", .type = text, .unit = "LIST", .help = fix_help()},
      // What is made of the answer.
      {.name = "emit", .verbs = "plan", .type = choice, .help = "search only what this framework runs, and print its command line or file; vllm: with --inference", .choices = {"megatron", "torchtitan", "deepspeed", "vllm"}},
      {.name = "emit-output", .verbs = "plan", .type = path, .unit = "FILE", .help = "write what --emit prints here: a shell script, or DeepSpeed's JSON"},
      {.name = "tokens", .verbs = "plan", .type = count, .unit = "N", .help = "days and cost of a run over this many tokens (300B, 2e12), checkpoints and failures counted", .min = 1, .max = 1e18},
      {.name = "price-per-hour", .verbs = "plan", .type = real, .unit = "PRICE", .help = "of one device; not given: the cluster file's", .min = 0, .max = 1e9},
      {.name = "mtbf", .verbs = "plan", .type = seconds, .fallback = "50000h", .unit = "TIME", .help = "mean time between failures of one device with its share of all else, for --tokens (50,000 hours: Llama 3's 419 in 54 days of 16,384 devices)", .min = 0, .above_min = true},
      {.name = "checkpoint-time", .verbs = "plan", .type = seconds, .unit = "TIME", .help = "that training stands still for a checkpoint, for --tokens; not given: weights and states to the nodes' disks", .min = 0, .above_min = true},
      {.name = "restart-time", .verbs = "plan", .type = seconds, .fallback = "5m", .unit = "TIME", .help = "from a failure to the next step, without reading the checkpoint, for --tokens", .min = 0},
      {.name = "details", .verbs = "plan", .type = flag, .help = "also print the search and its limits, each layer, each rank's memory by what it is for, rivals, and what to measure first"},
      {.name = "explain", .verbs = "plan", .type = flag, .help = "also plan with a little more memory, link and compute: what each is worth (five more searches)"},
      {.name = "pareto", .verbs = "plan", .type = flag, .help = "also plan for 1, 2, 4 … nodes: fewest devices, lowest cost, fastest"},
      {.name = "html", .verbs = "plan", .type = path, .unit = "FILE", .help = "write a page: the step's timeline, memory against capacity, layers, rivals"},
      {.name = "picture", .verbs = "plan", .type = path, .unit = "FILE", .help = "write the timeline and the memory as one SVG"},
      {.name = "certify", .verbs = "plan", .type = flag, .help = "then judge the plan by code that shares nothing with the search, and by a mixed-integer solver (cbc, highs) if one is there and the case is small; the plan then claims no more than that proves"},
      {.name = "check", .verbs = "plan", .type = path, .unit = "PLAN", .help = "search nothing: judge this plan file for the same MODEL, cluster and space; exit code 4 if it is not what it says, 8 if it is and its bound could not be proven (plan with --certify)"},
      {.name = "ulysses", .verbs = "plan", .type = toggle, .fallback = "on", .help = "context parallelism by all-to-all beside the ring"},
  };
}
// clang-format on

}  // namespace tern
