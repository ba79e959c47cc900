#include "program/instruction_times.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "spec/recompute.h"

namespace tern {
namespace {

struct UnitTimes {
  int64_t forward = 0, backward = 0, weight = 0, recompute = 0, update = 0;
};

int64_t part_of(int64_t total, int64_t part, int64_t all) {
  return all == 0 ? 0 : static_cast<int64_t>(static_cast<__int128>(total) * part / all);
}

struct Pricer {
  const ModelSpec& spec;
  const Placement& at;
  const PlacementCosts& costs;
  std::vector<int> layer_of = std::vector<int>(spec.units.size(), 0);  // of a unit
  std::vector<UnitTimes> units = std::vector<UnitTimes>(spec.units.size());
  std::vector<CostVector> layers{};
  std::vector<char> begun = std::vector<char>(at.layers.size(), 0), synced = begun;  // whether it has been priced

  Pricer(const ModelSpec& s, const Placement& p, const PlacementCosts& c) : spec(s), at(p), costs(c) {
    for (size_t l = 0; l < at.layers.size(); ++l) {
      const PlacedLayer& placed = at.layers[l];
      layers.push_back(of_rank(placed.stage).cost(placed.layer, placed.strategy, at.shape.num_devices > 1));
      for (int u = placed.layer.first; u < placed.layer.first + placed.layer.count; ++u)
        layer_of[u] = static_cast<int>(l);
      share_out(placed, layers.back());
    }
  }
  const LayerCosts& of_rank(int stage) const { return *costs.layers[device_of(at.shape, stage)]; }

  void share_out(const PlacedLayer& placed, const CostVector& c) {
    const int first = placed.layer.first, end = first + placed.layer.count;
    const std::vector<UnitFacts>& facts = of_rank(placed.stage).units();
    const auto is_remade = [&](int u) { return is_recomputed(spec.units[u], placed.strategy.recompute); };
    int64_t trained = 0, before = 0;
    UnitTimes left{c.forward, c.backward, c.weight, c.recompute, c.update};
    int remade_last = -1;  // the pass comes from the last unit
    for (int u = end - 1; u >= first; --u) {
      trained += facts[u].trained[0] + facts[u].trained[1];
      if (is_remade(u)) remade_last = u;
      units[u] = {facts[u].forward, facts[u].backward, facts[u].weight, is_remade(u) ? facts[u].forward : 0, 0};
      left.forward -= units[u].forward, left.backward -= units[u].backward, left.weight -= units[u].weight;
      left.recompute -= units[u].recompute;
    }
    units[end - 1].forward += left.forward;
    units[std::min(std::max(first, 1), end - 1)].backward += left.backward;
    units[first].weight += left.weight;
    if (remade_last >= 0) units[remade_last].recompute += left.recompute;
    for (int u = first; u < end; ++u) {
      const int64_t own = facts[u].trained[0] + facts[u].trained[1];
      units[u].update = part_of(left.update, before + own, trained) - part_of(left.update, before, trained);
      before += own;
    }
    if (trained == 0) units[first].update = left.update;
  }

  int64_t link(const Instruction& i) const {
    const EdgeCost& edge = costs.links[at.layers[layer_of[i.unit]].stage];  // of the layer before the link
    return i.reads[0].kind == BufferKind::output ? edge.forward : edge.backward;
  }

  bool begins_stage(size_t l) const { return l == 0 || at.layers[l - 1].stage != at.layers[l].stage; }
  bool ends_stage(size_t l) const { return l + 1 == at.layers.size() || at.layers[l + 1].stage != at.layers[l].stage; }

  // A GATHER belongs to the pass of the instruction behind it; of two for one layer the first has the time.
  int64_t gather(const std::vector<Instruction>& list, size_t k, size_t l) {
    const Instruction& i = list[k];
    if (i.micro < 0) return std::exchange(begun[l], 1) ? 0 : layers[l].begin;
    if (k > 0 && list[k - 1].op == Opcode::gather && list[k - 1].unit == i.unit && list[k - 1].micro == i.micro)
      return 0;
    size_t next = k + 1;
    while (next < list.size() && list[next].op == Opcode::gather) ++next;
    if (next < list.size() && list[next].op == Opcode::forward && list[next].unit == i.unit)
      return begins_stage(l) ? layers[l].entry_forward : 0;
    return ends_stage(l) ? layers[l].entry_backward : 0;
  }

  int64_t time(const std::vector<Instruction>& list, size_t k) {
    const Instruction& i = list[k];
    if (i.unit < 0 || i.op == Opcode::recv || i.op == Opcode::join) return 0;
    const auto l = static_cast<size_t>(layer_of[i.unit]);
    const CostVector& c = layers[l];
    const UnitTimes& u = units[i.unit];
    switch (i.op) {
      case Opcode::forward:
        return u.forward + (std::exchange(begun[l], 1) ? 0 : c.begin);
      case Opcode::backward_input:
        return u.backward;
      case Opcode::backward_weight:
        return u.weight;
      case Opcode::recompute:
        return u.recompute;
      case Opcode::update:
        return u.update;
      case Opcode::send:
        return link(i);
      case Opcode::store:
        return c.host_forward;
      case Opcode::load:
        return c.host_backward;
      case Opcode::gather:
        return gather(list, k, l);
      default:  // on the gradient link: the step's end waits for the last micro-batch's alone
        if (i.resource != Resource::gradient_link || (i.micro >= 0 && i.micro + 1 < at.shape.num_micro)) return 0;
        return std::exchange(synced[l], 1) ? 0 : c.sync;
    }
  }
};

}  // namespace

std::vector<int64_t> instruction_times(const Program& program, const ModelSpec& spec, const Placement& placement,
                                       const PlacementCosts& costs) {
  Pricer pricer(spec, placement, costs);
  std::vector<int64_t> ps;
  for (size_t k = 0; k < program.instructions.size(); ++k) ps.push_back(pricer.time(program.instructions, k));
  return ps;
}

std::vector<int64_t> instruction_times(const Program& program, const Rates& rates) {
  std::vector<int64_t> ps;
  for (const Instruction& i : program.instructions) {
    const bool stored = i.op == Opcode::update && i.axis == MeshAxis::none;
    const int64_t passing = stored ? i.message_bytes : 0;
    ps.push_back(std::llround(1e12 * std::max({static_cast<double>(i.flops) / rates.flops_per_s,
                                               static_cast<double>(i.bytes_moved) / rates.bytes_per_s,
                                               static_cast<double>(passing) / rates.disk_bytes_per_s})));
  }
  return ps;
}

}  // namespace tern
