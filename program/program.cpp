#include "program/program.h"

#include <fmt/format.h>

namespace tern {

std::string_view name_of(Opcode op) {
  switch (op) {
    case Opcode::forward:
      return "FORWARD";
    case Opcode::backward_input:
      return "BACKWARD_INPUT";
    case Opcode::backward_weight:
      return "BACKWARD_WEIGHT";
    case Opcode::recompute:
      return "RECOMPUTE";
    case Opcode::update:
      return "UPDATE";
  }
  return "?";
}

std::string_view name_of(BufferKind kind) {
  switch (kind) {
    case BufferKind::output:
      return "output";
    case BufferKind::saved:
      return "saved";
    case BufferKind::gradient:
      return "gradient";
    case BufferKind::left:
      return "left";
  }
  return "?";
}

std::string to_string(const Buffer& b) {
  return fmt::format("{}(unit {}, micro {})", name_of(b.kind), b.unit, b.micro);
}

std::string to_string(const Instruction& i) {
  if (i.op == Opcode::update) return "UPDATE";
  return fmt::format("{} unit {} micro {}", name_of(i.op), i.unit, i.micro);
}

}  // namespace tern
