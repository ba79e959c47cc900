// What tern plan --inference is asked for.
#include "apps/options/rows.h"

namespace tern {

// One row, one line.
// clang-format off
OptionRows plan_inference_rows() {
  using enum OptionType;
  return {
      {.name = "inference", .verbs = "plan", .type = flag, .help = "plan serving instead of training: what fits where, first token and tokens/s, users at once"},
      {.name = "prompt-tokens", .verbs = "plan", .type = integer, .fallback = "2048", .unit = "TOKENS", .help = "of --inference: length of a prompt", .min = 1, .max = kMaxCount},
      {.name = "max-tokens", .verbs = "plan", .type = integer, .fallback = "256", .unit = "TOKENS", .help = "of --inference: length of an answer", .min = 1, .max = kMaxCount},
      {.name = "prompt-lengths", .verbs = "plan", .type = path, .unit = "FILE", .help = "of --inference, instead of --prompt-tokens: lengths of prompts, one to a line, or length,count: means for throughput, 99 of 100 within --ttft and within memory"},
      {.name = "output-lengths", .verbs = "plan", .type = path, .unit = "FILE", .help = "of --inference, instead of --max-tokens: lengths of answers, likewise"},
      {.name = "users", .verbs = "plan", .type = integer, .unit = "N", .help = "of --inference: sequences at once; not given: one, or with --ttft or --tpot as many as keep them", .min = 1, .max = 65536},
      {.name = "ttft", .verbs = "plan", .type = seconds, .unit = "TIME", .help = "of --inference: most time to a first token, such as 500ms", .min = 0, .above_min = true},
      {.name = "tpot", .verbs = "plan", .type = seconds, .unit = "TIME", .help = "of --inference: most time per token after it, such as 40ms", .min = 0, .above_min = true},
      {.name = "kv-dtype", .verbs = "plan", .type = choice, .help = "of --inference: how keys and values are kept; not given: as --dtype; q8, q4: 8 or 4 bits each, 16 more for every token and head", .choices = {"f32", "bf16", "q8", "q4"}},
      {.name = "weight-dtype", .verbs = "plan", .type = choice, .help = "of --inference: how weights are kept; not given: as --dtype", .choices = {"f32", "bf16", "q8", "q4"}},
      {.name = "kv-place", .verbs = "plan", .type = choice, .fallback = "auto", .help = "of --inference on a machine that tern profile measured: where keys and values lie. auto: on its disk, those of as many layers as tern generate would put there, if memory does not hold what is asked; disk: those of all layers; memory: never on a disk", .choices = {"auto", "memory", "disk"}},
  };
}
// clang-format on

}  // namespace tern
