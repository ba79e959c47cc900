#pragma once
// What this rank sends and receives, held to what the Program says (program/link_bytes.h).

#include "exec/collective_parts.h"

namespace tern {

struct LinkCheck {
  const Program& program;
  const ExecuteInput& in;
  const CollectiveParts& parts;
  LinkBytes first{};     // counted before the run
  LinkBytes expected{};  // of stages, where messages of others may arrive at any time: all are compared at the end

  /// Counted so far.
  LinkBytes now() const { return in.world ? in.world->bytes() : LinkBytes{}; }
  /// What an instruction puts on the links, by the Program; without a loss NORM and UPDATE send nothing.
  LinkBytes planned(const Instruction&, bool has_loss) const;
  LinkBytes since(const LinkBytes& before) const;
  /// Of one instruction: adds what it counted to the result's links, and a mismatch if there is one.
  void compare(size_t place, const LinkBytes& counted, bool has_loss, ExecuteResult&) const;
  /// Of the run, held to `expected`; a mismatch is told of the instruction at `place`.
  void compare_all(size_t place, ExecuteResult&) const;
};

}  // namespace tern
