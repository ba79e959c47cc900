#include "exec/link_check.h"

#include <fmt/format.h>

#include "model/context_ranks.h"
#include "model/expert_ranks.h"
#include "model/tensor_ranks.h"
#include "program/link_bytes.h"

namespace tern {

LinkBytes LinkCheck::predicted(const Instruction& i, bool has_loss) const {
  if ((i.op == Opcode::norm || i.op == Opcode::update) && !has_loss) return {};
  const Comm& group = parts.group_of(i.axis);
  LinkBytes links = link_bytes(i, size_of(parts.wide()), group.rank(), group.size(), parts.bytes_of_parts(i));
  if (in.compute.tensor) links += exchange_link_bytes(i, in.compute.tensor->comm.size());
  if (in.compute.context) {
    links += swap_link_bytes(i, in.compute.context->comm.size());
    links += ring_link_bytes(i);
  }
  if (const ExpertRanks* experts = in.compute.experts) {
    const RoutedRows& rows = experts->routed;
    links += routed_link_bytes(i, experts->comm.size(), {rows.own, rows.left, rows.came});
  }
  return links;
}

LinkBytes LinkCheck::since(const LinkBytes& before) const {
  const LinkBytes all = now();
  return {all.sent - before.sent, all.received - before.received};
}

void LinkCheck::compare(size_t place, const LinkBytes& counted, bool has_loss, ExecuteResult& result) const {
  const Instruction& i = program.instructions[place];
  result.links += counted;
  const LinkBytes want = predicted(i, has_loss);
  if (counted != want)
    result.mismatches.push_back(
        {place, fmt::format("[{}] {}: {} bytes sent and {} received, the Program says {} and {}", place, to_string(i),
                            counted.sent, counted.received, want.sent, want.received)});
}

void LinkCheck::compare_all(size_t place, ExecuteResult& result) const {
  const LinkBytes counted = since(first);
  result.links = counted;
  if (counted != expected)
    result.mismatches.push_back(
        {place, fmt::format("messages between stages: {} bytes sent and {} received, the Program says {} and {}",
                            counted.sent, counted.received, expected.sent, expected.received)});
}

}  // namespace tern
