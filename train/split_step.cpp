#include "train/split_step.h"

#include <algorithm>

#include "base/error.h"

namespace tern {
namespace {

void append(ExecuteResult& to, ExecuteResult&& more, size_t place) {
  to.update = more.update, to.changed = more.changed;
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

}  // namespace

ExecuteResult execute_around(const Program& program, const ExecuteInput& input, const std::function<void()>& between) {
  TERN_CHECK(program.num_ranks == 1, "a step in two parts of {} ranks", program.num_ranks);
  const auto norm = std::ranges::find(program.instructions, Opcode::norm, &Instruction::op);
  const auto place = static_cast<size_t>(norm - program.instructions.begin());
  const auto part = [&](size_t begin, size_t end) {
    Program p = program;
    p.instructions.assign(program.instructions.begin() + static_cast<std::ptrdiff_t>(begin),
                          program.instructions.begin() + static_cast<std::ptrdiff_t>(end));
    ExecuteInput in = input;
    if (!in.predicted.empty()) in.predicted = in.predicted.subspan(begin, end - begin);
    return execute(p, in);
  };
  ExecuteResult result = part(0, place);
  between();
  append(result, part(place, program.instructions.size()), place);
  return result;
}

}  // namespace tern
