#include "program/passes.h"

#include <algorithm>

namespace tern {
namespace {

bool on_compute(const Instruction& i) { return i.resource == Resource::compute; }

// One backward operation of a stage: places on the compute clock of one rank, in order, from the first that needs no
// gradient (GATHER, RECOMPUTE) or the first BACKWARD_INPUT.
struct Operation {
  std::vector<int> places;
};

std::vector<Operation> backward_operations(const Program& p) {
  std::vector<Operation> all;
  const Instruction* before = nullptr;
  for (size_t k = 0; k < p.instructions.size(); ++k) {
    const Instruction& i = p.instructions[k];
    if (!on_compute(i) || i.op == Opcode::forward || i.micro < 0) {
      if (on_compute(i)) before = nullptr;
      continue;
    }
    const bool same = before && before->rank == i.rank && before->stage == i.stage && before->micro == i.micro;
    if (!same) all.emplace_back();
    all.back().places.push_back(static_cast<int>(k));
    before = &i;
  }
  return all;
}

struct Hoister {
  Program p;
  int64_t spare;
  std::vector<int> order;  // new list, by old place

  static bool is(const Instruction& i, Opcode op) { return i.op == op; }

  // Until the first BACKWARD_INPUT nothing needs the gradient.
  void release(const Operation& o) {
    for (const int k : o.places) {
      Instruction& i = p.instructions[k];
      if (is(i, Opcode::backward_input)) return;
      std::erase_if(i.waits, [&](int w) { return is(p.instructions[w], Opcode::recv); });
    }
  }

  // What it makes again it makes from buffers that are there before the operation: no LOAD brings them.
  bool can_move(const Operation& o, const Instruction& recompute) const {
    for (int k = o.places.front(); k < o.places.back(); ++k) {
      const Instruction& i = p.instructions[k];
      if (is(i, Opcode::load) && i.stage == recompute.stage && i.micro == recompute.micro) return false;
    }
    return true;
  }

  // Moves the RECOMPUTEs of further units to where the first one stands. Each needs room for what it makes, kept until
  // its own backward, and for its temporaries beside that.
  void hoist(const Operation& o) {
    const auto first = std::find_if(o.places.begin(), o.places.end(),
                                    [&](int k) { return is(p.instructions[k], Opcode::backward_input); });
    if (first == o.places.begin() || first == o.places.end()) return;
    if (!is(p.instructions[*(first - 1)], Opcode::recompute)) return;
    std::vector<int> moved;
    int64_t left = spare;
    for (auto at = first; at != o.places.end(); ++at) {
      const Instruction& i = p.instructions[*at];
      if (is(i, Opcode::gather)) break;  // its parameters are not there before
      if (!is(i, Opcode::recompute)) continue;
      int64_t made = 0, beside = i.workspace_bytes;
      for (const BufferBytes& b : i.allocates) (b.buffer.kind == BufferKind::saved ? made : beside) += b.bytes;
      if (made + beside > left || !can_move(o, i)) break;
      left -= made;
      moved.push_back(*at);
    }
    if (moved.empty()) return;
    std::stable_partition(order.begin() + *first, order.begin() + moved.back() + 1,
                          [&](int k) { return std::find(moved.begin(), moved.end(), k) != moved.end(); });
  }

  Program rebuild() {
    std::vector<int> new_place(order.size());
    for (size_t n = 0; n < order.size(); ++n) new_place[order[n]] = static_cast<int>(n);
    Program q{p.num_ranks, p.num_units, p.num_micro, {}, std::move(p.resident), p.devices_per_rank, p.head_parts};
    q.instructions.reserve(order.size());
    for (const int k : order) {
      q.instructions.push_back(std::move(p.instructions[k]));
      for (int& w : q.instructions.back().waits) w = new_place[w];
    }
    return q;
  }
};

}  // namespace

Program recompute_early(const Program& program, int64_t spare_bytes) {
  Hoister h{program, spare_bytes, {}};
  for (size_t k = 0; k < program.instructions.size(); ++k) h.order.push_back(static_cast<int>(k));
  for (const Operation& o : backward_operations(program)) {
    h.release(o);
    if (program.instructions[o.places[0]].micro + 1 < program.num_micro) h.hoist(o);
  }
  return h.rebuild();
}

}  // namespace tern
