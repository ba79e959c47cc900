#pragma once
// Compares the bytes that this rank sends and receives with what the Program says (program/link_bytes.h).

#include "exec/collective_parts.h"

namespace tern {

/// The comparison of one run of one Program. LinkBytes are payload, in bytes.
struct LinkCheck {
  const Program& program;
  const ExecuteInput& in;
  const CollectiveParts& parts;
  LinkBytes first{};  // the world's count before the run
  // Pipelines: the bytes of all instructions so far according to the Program. Messages of other stages may arrive at any time, so only
  // the bytes of the whole run are compared.
  LinkBytes expected{};

  /// The world's count so far.
  LinkBytes now() const { return in.world ? in.world->bytes() : LinkBytes{}; }
  /// The bytes that an instruction sends and receives according to the Program. If no token has a loss, NORM and UPDATE send nothing.
  LinkBytes predicted(const Instruction&, bool has_loss) const;
  /// What was counted since `before`, an earlier now().
  LinkBytes since(const LinkBytes& before) const;
  /// Adds `counted`, the count of the instruction at `place`, to the result's links, and a mismatch if `predicted` differs from it.
  void compare(size_t place, const LinkBytes& counted, bool has_loss, ExecuteResult&) const;
  /// Sets the result's links to the count of the run. Adds a mismatch, under `place`, if this count is not `expected`.
  void compare_all(size_t place, ExecuteResult&) const;
};

}  // namespace tern
