// Texts as vectors.
#include "apps/options/rows.h"

namespace tern {

// One row, one line.
// clang-format off
OptionRows embed_rows() {
  using enum OptionType;
  return {
      {.name = "text", .verbs = "embed", .type = text, .unit = "TEXT", .help = "one text"},
      {.name = "input", .verbs = "embed", .type = path, .unit = "FILE", .help = "texts, one per line; .jsonl: {\"text\": …} (not messages); -: standard input"},
      {.name = "output", .verbs = "embed", .type = path, .unit = "FILE.npy", .help = "write the vectors here, as NumPy's array of (texts, width) in f32; a file that is there is not written over"},
      {.name = "pooling", .verbs = "embed", .type = choice, .help = "how a text's rows become one; not given: as the model says, else mean (encoder) or last (decoder)", .choices = {"mean", "cls", "last", "max", "mean-sqrt", "weighted-mean", "pooler"}},
      {.name = "normalize", .verbs = "embed", .type = choice, .fallback = "auto", .help = "vectors of length 1; auto: as the model says, else not", .choices = {"auto", "always", "never"}},
      {.name = "prefix", .verbs = "embed", .type = text, .unit = "TEXT", .help = "put before every text, such as 'query: '; not given: what the model says"},
      {.name = "truncate", .verbs = "embed", .type = flag, .help = "leave out what a text has too much for the model; without it such a text is an error"},
      {.name = "batch", .verbs = "embed", .type = integer, .fallback = "32", .unit = "TEXTS", .help = "texts at a time; changes speed and memory, not the result", .min = 1, .max = kMaxCount},
  };
}
// clang-format on

}  // namespace tern
