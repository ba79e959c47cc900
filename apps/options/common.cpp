// What nearly every verb takes, and what the verbs take that take little else.
#include "apps/options/rows.h"

namespace tern {

// One row, one line.
// clang-format off
OptionRows machine_rows() {
  using enum OptionType;
  return {
      {.name = "threads", .verbs = "train adapt generate chat eval embed serve export quantize plan demo bench profile adapt-merge adapt-combine adapt-extract", .type = integer, .unit = "N", .help = "compute threads; not given: the cores this process may use", .min = 1, .max = 4096},
      {.name = "memory", .verbs = "train adapt tokenize generate chat eval embed serve export quantize bench profile adapt-merge", .type = bytes, .unit = "SIZE", .help = "most memory to use, such as 4GiB; not given: what the machine has free", .min = 1},
  };
}

OptionRows demo_rows() {
  using enum OptionType;
  return {
      {.name = "data", .verbs = "demo", .type = path, .unit = "FILE", .help = "your own text instead of the fortunes", .env = "TERN_DATA_FILE"},
      {.name = "output", .verbs = "demo", .type = path, .fallback = "tern-demo", .unit = "DIR", .help = "where the demo works and leaves its report"},
      {.name = "output", .verbs = "compare", .type = path, .unit = "FILE", .help = "write an HTML page with plots"},
  };
}

OptionRows json_rows() {
  using enum OptionType;
  return {
      {.name = "json", .verbs = "train adapt generate chat eval embed serve tokenize inspect export quantize plan plan-calibrate plan-table compare doctor demo bench bench-serve profile adapt-merge adapt-combine adapt-extract new version", .type = flag, .help = "machine-readable output on standard output"},
  };
}
// clang-format on

}  // namespace tern
