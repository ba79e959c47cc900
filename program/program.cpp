#include "program/program.h"

#include <fmt/format.h>

namespace tern {

std::string_view name_of(Opcode op) {
  constexpr std::string_view names[] = {
      "FORWARD", "BACKWARD_INPUT", "BACKWARD_WEIGHT", "RECOMPUTE", "REDUCE", "NORM", "UPDATE", "SEND",
      "RECV",    "GATHER",         "SCATTER",         "LOAD",      "STORE",  "JOIN", "MERGE"};
  return names[static_cast<size_t>(op)];
}

std::string_view name_of(BufferKind kind) {
  constexpr std::string_view names[] = {"output",      "saved",
                                        "gradient",    "left",
                                        "remade",      "held",
                                        "gathered",    "gathered_experts",
                                        "summand",     "summand_experts",
                                        "persistent",  "kept_sum",
                                        "extent",      "keys",
                                        "extent_slot", "keys_slot",
                                        "weights",     "pages",
                                        "expert",      "expected_expert",
                                        "expert_slot"};
  return names[static_cast<size_t>(kind)];
}

std::string_view name_of(Resource resource) {
  constexpr std::string_view names[] = {"compute", "link", "host link", "gradient link", "disk"};
  return names[static_cast<size_t>(resource)];
}

std::string_view name_of(MeshAxis axis) {
  constexpr std::string_view names[] = {"none", "replicas", "expert replicas", "tables", "tensor", "keys", "all"};
  return names[static_cast<size_t>(axis)];
}

std::string to_string(const Buffer& b) {
  if (b.kind == BufferKind::expert)
    return fmt::format("expert(unit {}, {} {})", b.unit, b.part / 2, b.part % 2 == 0 ? "up" : "down");
  std::string text = fmt::format("{}(unit {}, micro {}", name_of(b.kind), b.unit, b.micro);
  if (b.tier != Tier::device) text += fmt::format(", {}", name_of(b.tier));
  if (b.part != 0) text += fmt::format(", part {}", b.part);
  return text + ")";
}

namespace {

bool is_moved_in_inference(const Buffer& b) {
  return b.kind == BufferKind::extent || b.kind == BufferKind::keys || b.kind == BufferKind::expected_expert;
}

}  // namespace

std::string to_string(const Instruction& i) {
  if (i.op == Opcode::norm) return std::string(name_of(i.op));
  if (i.op == Opcode::join && !i.frees.empty()) return fmt::format("JOIN {}", to_string(i.frees[0]));
  if (i.op == Opcode::reduce || i.op == Opcode::update) return fmt::format("{} unit {}", name_of(i.op), i.unit);
  if (i.op == Opcode::send && !i.reads.empty()) return fmt::format("SEND {} to rank {}", to_string(i.reads[0]), i.peer);
  if (i.op == Opcode::recv && !i.allocates.empty())
    return fmt::format("RECV {} from rank {}", to_string(i.allocates[0].buffer), i.peer);
  if (i.op == Opcode::load && !i.allocates.empty() && i.allocates[0].buffer.kind == BufferKind::expert)
    return fmt::format("LOAD {} micro {}", to_string(i.allocates[0].buffer), i.micro);
  if (i.op == Opcode::load && !i.allocates.empty() && is_moved_in_inference(i.allocates[0].buffer))
    return fmt::format("LOAD {}", to_string(i.allocates[0].buffer));
  if (i.op == Opcode::store && !i.reads.empty() && is_moved_in_inference(i.reads[0]))
    return fmt::format("STORE {}", to_string(i.reads[0]));
  std::string text = fmt::format("{} unit {} micro {}", name_of(i.op), i.unit, i.micro);
  return i.part == 0 ? text : fmt::format("{} part {}", text, i.part);
}

}  // namespace tern
