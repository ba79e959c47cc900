#include "program/expert_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tern {
namespace {

struct ExpertChecker {
  const Program& program;
  std::vector<std::string> faults{};
  int64_t slots = 0, alive = 0;
  std::vector<int> unread{};  // LOADs whose expert no part has read yet
  int place = 0;
  const Instruction* before = nullptr;  // the FORWARD before

  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    faults.push_back(
        fmt::format("[{}] {}: {}", place, to_string(at(place)), fmt::format(format, std::forward<Args>(args)...)));
  }
  const Instruction& at(int k) const { return program.instructions[static_cast<size_t>(k)]; }

  void forward(const Instruction& i) {
    const auto count = std::ranges::count_if(i.reads, is_expert);
    if (count == 0) {
      if (before && uses_expert(*before) && before->unit == i.unit && before->micro == i.micro)
        fault("stands behind a part that uses an expert");
      return;
    }
    if (count > 1) fault("uses {} experts", count);
    const Buffer& b = *std::ranges::find_if(i.reads, is_expert);
    const bool of_part = b.kind == BufferKind::expert || (b.micro == i.micro && b.part == i.part);
    if (b.unit != i.unit || !of_part) fault("uses {}, which is another's", to_string(b));
    const bool frees = std::ranges::count(i.frees, b) > 0;
    if (frees != (b.kind == BufferKind::expected_expert))
      fault("{} {}", frees ? "frees" : "does not free", to_string(b));
    std::erase_if(unread, [&](int k) { return at(k).micro == i.micro && at(k).allocates[0].buffer == b; });
  }

  void load(const Instruction& i) {
    const Buffer& b = i.allocates[0].buffer;
    if (b.unit != i.unit) fault("brings {}, which is another's", to_string(b));
    if (b.kind == BufferKind::expert && b.micro != 0) fault("brings an expert of micro {}", b.micro);
    const bool chosen = std::ranges::any_of(i.waits, [&](int k) {
      return 0 <= k && k < place && at(k).op == Opcode::forward && at(k).unit == i.unit && at(k).micro == i.micro;
    });
    if (!chosen) fault("does not wait for the router");
    unread.push_back(place);
    if (b.kind == BufferKind::expected_expert) return;
    for (const Buffer& freed : i.frees)
      if (freed.kind != BufferKind::expert) fault("frees {}", to_string(freed));
    if (i.frees.size() > 1) fault("takes the slots of {} experts", i.frees.size());
    alive += 1 - static_cast<int64_t>(i.frees.size());
    if (alive > slots) fault("has no slot: {} experts in {}", alive, slots);
  }

  void run() {
    for (const std::vector<BufferBytes>& list : program.resident)
      for (const BufferBytes& b : list)
        slots += b.buffer.kind == BufferKind::expert_slot, alive += b.buffer.kind == BufferKind::expert;
    if (alive > slots) faults.push_back(fmt::format("{} experts are there, in {} slots", alive, slots));
    for (; place < static_cast<int>(program.instructions.size()); ++place) {
      const Instruction& i = at(place);
      if (i.op == Opcode::forward)
        forward(i), before = &i;
      else if (i.op == Opcode::load && i.allocates.size() == 1 && is_expert(i.allocates[0].buffer))
        load(i);
    }
    for (const int k : unread) place = k, fault("no part of its step uses it");
  }
};

}  // namespace

bool is_expert(const Buffer& b) { return b.kind == BufferKind::expert || b.kind == BufferKind::expected_expert; }

bool uses_expert(const Instruction& i) { return i.op == Opcode::forward && std::ranges::any_of(i.reads, is_expert); }

std::vector<std::string> faults_of_experts(const Program& program) {
  ExpertChecker checker{program};
  checker.run();
  return std::move(checker.faults);
}

}  // namespace tern
