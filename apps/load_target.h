#pragma once
// The server that a load is sent to: one that runs already, or one that is started for the load and ended afterwards.

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
  std::string model;                   // the name in requests
  int64_t context = 0;                 // the most tokens of a request; 0: the server does not say
  std::vector<int32_t> ids;            // the server's ids for a page of English
  std::optional<Options> serve;        // the options of the server that was started; none: it ran already
  std::unique_ptr<ChildBeside> child;  // the server that was started
  std::string ready;                   // the JSON that it printed when it was ready
};
/// The server of --url, or a new `tern serve MODEL` with the arguments after `--`. Unless these say otherwise, the new server
/// gets --context `context`, and as --max-running the larger of `at_once` and the default. Errors: usage; peer: nobody listens
/// there; the error with which the server ended.
LoadTarget load_target(const Options&, int64_t context, int64_t at_once);

}  // namespace tern
