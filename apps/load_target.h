#pragma once
// The server that a load goes to: one that is there, or one that is started for it and ended after it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/child_process.h"
#include "base/options.h"
#include "serve/load/load_client.h"

namespace tern {

/// What a process holds, as the system counts it.
struct ProcessFigures {
  int64_t resident_bytes = 0, peak_resident_bytes = 0, open_files = 0;
};
ProcessFigures process_figures(pid_t);

struct LoadTarget {
  ServerAddress address;
  std::string model;                   // that requests name
  int64_t context = 0;                 // tokens of a request; 0: it does not tell
  std::vector<int32_t> ids;            // its ids for a page of English
  std::optional<Options> serve;        // the options of the server that was started
  std::unique_ptr<ChildBeside> child;  // it
  std::string ready;                   // what it told when it was there, JSON
};
/// --url, or `tern serve MODEL` with what stands behind `--`. The server gets --context `context` and --max-running `at_once`,
/// at least its default, where nothing else is said there. Errors: usage; peer: nobody listens there; what the server
/// ended with.
LoadTarget load_target(const Options&, int64_t context, int64_t at_once);

}  // namespace tern
