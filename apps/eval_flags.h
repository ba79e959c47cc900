#pragma once
// Which flags of `tern eval` go together.

namespace tern {

class Options;

/// Errors  usage: both or neither of --data and --task, or flags that belong to another of eval's three jobs.
void check_eval_flags(const Options&);

}  // namespace tern
