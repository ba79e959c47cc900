// Verbs that measure: bench serve a server, bench and profile this machine.
#include "apps/options/rows.h"

namespace tern {

// One row, one line.
// clang-format off
OptionRows bench_serve_rows() {
  using enum OptionType;
  return {
      {.name = "max-seconds", .verbs = "bench-serve", .type = seconds, .unit = "TIME", .help = "measure no longer than this, in all; what has ended by then counts", .min = 0, .above_min = true},
      {.name = "url", .verbs = "bench-serve", .type = text, .unit = "URL", .help = "a server that is there: http://HOST:PORT"},
      {.name = "model-name", .verbs = "bench-serve", .type = text, .unit = "NAME", .help = "what requests call the model; not given: the first of /v1/models"},
      {.name = "rate", .verbs = "bench-serve", .type = real, .unit = "N", .help = "requests a second on average, at random times; --users instead wait for their answers", .min = 0, .max = 1e5, .above_min = true},
      {.name = "users", .verbs = "bench-serve", .type = integer, .unit = "N", .help = "users who ask again when they have their answer; neither this nor --rate: the most that keep --ttft and --tpot are looked for", .min = 1, .max = 65536},
      {.name = "requests", .verbs = "bench-serve", .type = integer, .fallback = "100", .unit = "N", .help = "requests that are measured, of each load that is tried", .min = 1, .max = 1e7},
      {.name = "prompt-tokens", .verbs = "bench-serve", .type = integer, .fallback = "128", .unit = "TOKENS", .help = "length of a prompt", .min = 1, .max = kMaxCount},
      {.name = "max-tokens", .verbs = "bench-serve", .type = integer, .fallback = "64", .unit = "TOKENS", .help = "length of an answer", .min = 1, .max = kMaxCount},
      {.name = "prompt-lengths", .verbs = "bench-serve", .type = path, .unit = "FILE", .help = "instead of --prompt-tokens: lengths of prompts to draw from, one to a line, or length,count"},
      {.name = "output-lengths", .verbs = "bench-serve", .type = path, .unit = "FILE", .help = "instead of --max-tokens: lengths of answers, likewise"},
      {.name = "seed", .verbs = "bench-serve", .type = integer, .fallback = "1", .unit = "N", .help = "of times, lengths and prompts", .min = 0},
      {.name = "ttft", .verbs = "bench-serve", .type = seconds, .unit = "TIME", .help = "target: most time to a first token, such as 500ms", .min = 0, .above_min = true},
      {.name = "tpot", .verbs = "bench-serve", .type = seconds, .unit = "TIME", .help = "target: most time per token after it, such as 40ms", .min = 0, .above_min = true},
      {.name = "share", .verbs = "bench-serve", .type = real, .fallback = "0.9", .unit = "X", .help = "of the search for the most users: the share of requests that must keep the targets", .min = 0, .max = 1, .above_min = true},
      {.name = "hardware", .verbs = "bench-serve", .type = path, .unit = "FILE", .help = "cluster file of this machine (tern profile): show what tern plan --inference foretells beside it"},
  };
}

OptionRows bench_rows() {
  using enum OptionType;
  return {
      {.name = "rounds", .verbs = "bench", .type = integer, .fallback = "7", .unit = "N", .help = "times that every task is measured", .min = 1, .max = 10000},
      {.name = "limits-only", .verbs = "bench", .type = flag, .help = "measure the machine, not tern's work on it"},
      {.name = "disk", .verbs = "bench", .type = path, .unit = "DIR", .help = "also read a file of 256 MiB, made and removed under this directory"},
      {.name = "output", .verbs = "bench", .type = path, .unit = "FILE", .help = "write a roofline picture (SVG)"},
  };
}

OptionRows profile_rows() {
  using enum OptionType;
  return {
      {.name = "output", .verbs = "profile", .type = path, .unit = "FILE.toml", .help = "write the cluster file here; not given: standard output"},
      {.name = "quick", .verbs = "profile", .type = flag, .help = "fewer shapes and rounds"},
      {.name = "rounds", .verbs = "profile", .type = integer, .unit = "N", .help = "times that every figure is measured; not given: 5, with --quick 3", .min = 1, .max = 10000},
      {.name = "disk", .verbs = "profile", .type = path, .unit = "DIR", .help = "read and write two files of 256 MiB, made and removed under this directory; not given: that of --output, else this one"},
      {.name = "ranks", .verbs = "profile", .type = integer, .fallback = "1", .unit = "N", .help = "measure for so many ranks, threads of this process (at work at the same time: as many as have CPUs), and collectives between all of them: the file has a device for each, which tern plan shares work out to and tern train --plan runs; --threads is of each rank", .min = 1, .max = 1024},
      {.name = "transport", .verbs = "profile", .type = choice, .fallback = "memory", .help = "of --ranks: by what they talk in collectives: the memory that threads of one process share, or tcp on 127.0.0.1, as processes of one machine do (tern launch)", .choices = {"memory", "tcp"}},
      {.name = "import", .verbs = "profile", .type = list, .unit = "FILE", .help = "measure nothing: read the output of nccl-tests (all_reduce_perf, all_gather_perf, …); may be given several times; -: standard input"},
  };
}
// clang-format on

}  // namespace tern
