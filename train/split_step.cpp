#include "train/split_step.h"

#include <algorithm>

#include "base/error.h"

namespace tern {
namespace {

void append(ExecuteResult& to, ExecuteResult&& more, size_t place) {
  to.update = more.update;
  to.loss_sum += more.loss_sum, to.num_targets += more.num_targets;
  to.losses.insert(to.losses.end(), more.losses.begin(), more.losses.end());
  to.counted.insert(to.counted.end(), more.counted.begin(), more.counted.end());
  if (more.bytes.peak_bytes > to.bytes.peak_bytes) {
    to.bytes.peak_bytes = more.bytes.peak_bytes;
    to.bytes.buffers_at_peak = more.bytes.buffers_at_peak, to.bytes.workspace_at_peak = more.bytes.workspace_at_peak;
    to.bytes.peak_place = more.bytes.peak_place + place;
  }
  to.bytes.peak_buffers = std::max(to.bytes.peak_buffers, more.bytes.peak_buffers);
  to.bytes.peak_workspace = std::max(to.bytes.peak_workspace, more.bytes.peak_workspace);
  for (ByteMismatch& m : more.mismatches) to.mismatches.push_back({m.place + place, std::move(m.what)});
  to.trace.insert(to.trace.end(), more.trace.begin(), more.trace.end());
  to.seconds += more.seconds;
}

// The instructions [begin, end) alone.
ExecuteResult execute_part(const Program& program, const ExecuteInput& input, size_t begin, size_t end) {
  Program p = program;
  p.instructions.assign(program.instructions.begin() + static_cast<std::ptrdiff_t>(begin),
                        program.instructions.begin() + static_cast<std::ptrdiff_t>(end));
  ExecuteInput in = input;
  if (!in.predicted.empty()) in.predicted = in.predicted.subspan(begin, end - begin);
  return execute(p, in);
}

size_t place_of_norm(const Program& program) {
  TERN_CHECK(program.num_ranks == 1, "a step in parts of {} ranks", program.num_ranks);
  const auto norm = std::ranges::find(program.instructions, Opcode::norm, &Instruction::op);
  return static_cast<size_t>(norm - program.instructions.begin());
}

}  // namespace

ExecuteResult execute_around(const Program& program, const ExecuteInput& input, const std::function<void()>& between) {
  const size_t place = place_of_norm(program);
  ExecuteResult result = execute_part(program, input, 0, place);
  between();
  append(result, execute_part(program, input, place, program.instructions.size()), place);
  return result;
}

ExecuteResult execute_around(const Program& program, const ExecuteInput& input, const AroundMicroBatches& around) {
  const size_t place = place_of_norm(program);
  ExecuteInput whole = input;  // NORM asks whether any of the step's rows had a loss
  if (!whole.step_targets) {
    whole.step_targets = 0;
    for (const MicroBatch& b : input.micro_batches) *whole.step_targets += b.num_targets();
  }
  ExecuteResult result;
  int micro = 0;
  for (size_t begin = 0; begin < place;) {
    size_t end = begin;
    const auto own = [&] { return program.instructions[end].micro; };
    while (end < place && (own() == micro || own() < 0)) ++end;
    TERN_CHECK(end > begin, "a step in parts: micro-batch {} comes where {} was expected", own(), micro);
    around.before(static_cast<size_t>(micro));
    ExecuteResult own_part = execute_part(program, whole, begin, end);
    if (micro == 0)
      result = std::move(own_part);
    else
      append(result, std::move(own_part), begin);
    around.after(static_cast<size_t>(micro));
    begin = end, ++micro;
  }
  around.between();
  append(result, execute_part(program, whole, place, program.instructions.size()), place);
  return result;
}

}  // namespace tern
