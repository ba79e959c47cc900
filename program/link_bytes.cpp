#include "program/link_bytes.h"

namespace tern {

LinkBytes link_bytes(const Instruction& i, int64_t element_bytes, int rank, int ranks) {
  if (i.axis == MeshAxis::none) return {};
  if (i.op == Opcode::reduce) return all_reduce_bytes(i.message_bytes / element_bytes, element_bytes, rank, ranks);
  if (i.op == Opcode::norm) return {(ranks - 1) * i.message_bytes, (ranks - 1) * i.message_bytes};
  return {};
}

}  // namespace tern
