#pragma once
// Which flags of `tern eval` go together.

namespace tern {

class Options;

/// Errors  usage: both or neither of --data and --task; a flag that belongs to another job of eval; --extract-which without --extract.
void check_eval_flags(const Options&);

}  // namespace tern
