#include "program/routed_rows.h"

#include <fmt/format.h>

#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace tern {
namespace {

// In lowest terms.
using Ratio = std::pair<int64_t, int64_t>;
Ratio ratio_of(int64_t a, int64_t b) {
  const int64_t divisor = std::gcd(a, b);
  return divisor > 0 ? Ratio{a / divisor, b / divisor} : Ratio{};
}

int64_t output_bytes(const Instruction& i) {
  for (const BufferBytes& b : i.allocates)
    if (b.buffer.kind == BufferKind::output) return b.bytes;
  return 0;
}

bool sends_rows(const Instruction& i) { return i.routed_bytes > 0 || i.told_bytes > 0; }
bool may_send_rows(Opcode op) {
  return op == Opcode::forward || op == Opcode::recompute || op == Opcode::backward_input;
}

struct RowsCheck {
  const Program& program;
  std::vector<std::string> faults{};
  std::map<int, int> sender{};                   // of a unit: the place of its first pass with rows
  std::map<std::pair<int, int>, int> forward{};  // of unit and micro: its place
  std::map<int, Ratio> of_output{};              // of a unit: FORWARD's bytes by its output's
  std::optional<Ratio> backward{};               // BACKWARD_INPUT's bytes by FORWARD's
  int place = 0;

  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    faults.push_back(fmt::format("[{}] {}: {}", place, to_string(program.instructions[static_cast<size_t>(place)]),
                                 fmt::format(format, std::forward<Args>(args)...)));
  }
  const Instruction* forward_of(const Instruction& i) const {
    const auto at = forward.find({i.unit, i.micro});
    return at == forward.end() ? nullptr : &program.instructions[static_cast<size_t>(at->second)];
  }

  void find_senders() {
    for (place = 0; place < static_cast<int>(program.instructions.size()); ++place) {
      const Instruction& i = program.instructions[static_cast<size_t>(place)];
      if (i.op == Opcode::forward) forward.emplace(std::pair{i.unit, i.micro}, place);
      if (!sends_rows(i)) continue;
      if (!may_send_rows(i.op))
        fault("sends rows of experts");
      else
        sender.emplace(i.unit, place);
    }
  }

  void check_forward(const Instruction& i) {
    const Instruction& first = program.instructions[static_cast<size_t>(forward.at({i.unit, 0}))];
    if (i.told_bytes == 0 || i.told_bytes != first.told_bytes)
      fault("tells how many rows come in {} bytes, micro 0 in {}", i.told_bytes, first.told_bytes);
    const Ratio of = ratio_of(i.routed_bytes, output_bytes(i));
    const Ratio want = of_output.try_emplace(i.unit, of).first->second;
    if (of != want)
      fault("sends {} bytes of rows for an output of {}, other micro-batches {} for {}", i.routed_bytes,
            output_bytes(i), want.first, want.second);
  }

  void check_backward(const Instruction& i, const Instruction& before) {
    if (i.told_bytes > 0) fault("tells how many rows come, which FORWARD has told");
    if (i.routed_bytes <= before.routed_bytes || i.routed_bytes - before.routed_bytes > before.routed_bytes)
      return fault("sends {} bytes of rows, FORWARD {}: backward a row has one number more", i.routed_bytes,
                   before.routed_bytes);
    const Ratio of = ratio_of(i.routed_bytes, before.routed_bytes);
    if (!backward) backward = of;
    if (of != *backward)
      fault("sends {} bytes of rows, FORWARD {}; other units or micro-batches {} for {}", i.routed_bytes,
            before.routed_bytes, backward->first, backward->second);
  }

  void check(const Instruction& i) {
    if (!may_send_rows(i.op) || !sender.contains(i.unit)) return;
    if (i.routed_bytes == 0) return fault("sends no rows of experts, [{}] does", sender[i.unit]);
    const Instruction* const before = forward_of(i);
    if (!before || !forward.contains({i.unit, 0})) return;  // another rule
    if (i.op == Opcode::forward) check_forward(i);
    if (i.op == Opcode::backward_input) check_backward(i, *before);
    if (i.op == Opcode::recompute && (i.routed_bytes != before->routed_bytes || i.told_bytes != before->told_bytes))
      fault("sends {} bytes of rows and tells {}, its FORWARD {} and {}", i.routed_bytes, i.told_bytes,
            before->routed_bytes, before->told_bytes);
  }
};

}  // namespace

std::vector<std::string> faults_of_routed_rows(const Program& program) {
  RowsCheck check{program};
  check.find_senders();
  for (check.place = 0; check.place < static_cast<int>(program.instructions.size()); ++check.place)
    check.check(program.instructions[static_cast<size_t>(check.place)]);
  return std::move(check.faults);
}

}  // namespace tern
