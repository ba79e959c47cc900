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
    if (!on_compute(i) || i.op == Opcode::forward || i.op == Opcode::update || i.micro < 0) {
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
      std::erase_if(i.reads, [](const Buffer& b) { return b.kind == BufferKind::gradient; });
    }
  }

  // Moves the RECOMPUTEs of further units to where the first one stands.
  void hoist(const Operation& o) {
    const auto first = std::find_if(o.places.begin(), o.places.end(),
                                    [&](int k) { return is(p.instructions[k], Opcode::backward_input); });
    if (first == o.places.begin() || first == o.places.end()) return;
    if (!is(p.instructions[*(first - 1)], Opcode::recompute)) return;
    std::vector<int> moved;
    int64_t left = spare;
    for (auto at = first; at != o.places.end(); ++at) {
      const Instruction& i = p.instructions[*at];
      if (!is(i, Opcode::recompute)) continue;
      if (i.workspace_bytes > left) break;
      left -= i.workspace_bytes;
      moved.push_back(*at);
    }
    if (moved.empty()) return;
    for (const int k : moved) keep(o, k);
    std::vector<int> places(o.places.begin(), first);
    places.insert(places.end(), moved.begin(), moved.end());
    for (auto at = first; at != o.places.end(); ++at)
      if (std::find(moved.begin(), moved.end(), *at) == moved.end()) places.push_back(*at);
    for (size_t n = 0; n < places.size(); ++n) order[o.places[n]] = places[n];
  }

  // What an early RECOMPUTE makes lives until the last instruction that needs it: BACKWARD_WEIGHT, or BACKWARD_INPUT
  // where that is an operation of its own.
  void keep(const Operation& o, int recompute) {
    Instruction& r = p.instructions[recompute];
    const Buffer made{BufferKind::saved, r.unit, r.micro};
    r.allocates.push_back({made, r.workspace_bytes});
    r.workspace_bytes = 0;
    Instruction* last = nullptr;
    for (const int k : o.places) {
      Instruction& i = p.instructions[k];
      if (i.unit != r.unit || (!is(i, Opcode::backward_input) && !is(i, Opcode::backward_weight))) continue;
      i.reads.push_back(made);
      i.workspace_bytes = 0;  // it works in what is there already
      last = &i;
    }
    last->frees.push_back(made);
  }

  Program rebuild() {
    std::vector<int> new_place(order.size());
    for (size_t n = 0; n < order.size(); ++n) new_place[order[n]] = static_cast<int>(n);
    Program q{p.num_ranks, p.num_units, p.num_micro, {}, std::move(p.resident)};
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
