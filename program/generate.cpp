#include "program/generate.h"

#include "base/error.h"

namespace tern {
namespace {

Buffer output(int u, int m) { return {BufferKind::output, u, m}; }
Buffer saved(int u, int m) { return {BufferKind::saved, u, m}; }
Buffer gradient(int u, int m) { return {BufferKind::gradient, u, m}; }
Buffer left(int u, int m) { return {BufferKind::left, u, m}; }

struct Emitter {
  const ModelSpec& spec;
  Recompute recompute;
  std::vector<UnitCost> costs;  // of the present micro-batch
  Program program;

  int last() const { return static_cast<int>(spec.units.size()) - 1; }
  bool remakes(int u) const { return is_recomputed(spec.units[u], recompute); }
  void emit(Instruction i) { program.instructions.push_back(std::move(i)); }

  // Where the embedding keeps nothing saved(0) does not exist; the head ends in a loss, so output(last) does not.
  bool keeps(int u) const { return u > 0 || costs[u].saved_bytes > 0; }
  Instruction forward_of(Opcode op, int u, int m) const {
    const UnitCost& c = costs[u];
    Instruction i{.op = op, .unit = u, .micro = m};
    if (u > 0) i.reads = {output(u - 1, m)};
    if (u < last()) i.allocates.push_back({output(u, m), c.output_bytes});
    if (keeps(u)) i.allocates.push_back({saved(u, m), c.saved_bytes});
    i.workspace_bytes = c.forward_workspace;
    i.flops = c.forward_flops;
    i.bytes_moved = c.forward_bytes_moved;
    return i;
  }

  void forward(int u, int m) {
    Instruction i = forward_of(Opcode::forward, u, m);
    if (remakes(u)) keep_nothing(i);
    emit(std::move(i));
  }

  void keep_nothing(Instruction& i) const {
    std::erase_if(i.allocates, [](const BufferBytes& b) { return b.buffer.kind == BufferKind::saved; });
    i.workspace_bytes = costs[i.unit].unsaved_workspace;
  }

  // Makes saved(u) again; the output that comes with it has no reader and ends at once.
  void remake(int u, int m) {
    Instruction i = forward_of(Opcode::recompute, u, m);
    i.frees = {output(u, m)};
    emit(std::move(i));
  }

  void backward_input(int u, int m) {
    const UnitCost& c = costs[u];
    Instruction i{.op = Opcode::backward_input, .unit = u, .micro = m};
    i.reads = {output(u - 1, m), saved(u, m)};
    if (u < last()) i.reads.push_back(gradient(u, m));
    i.allocates = {{gradient(u - 1, m), costs[u - 1].output_bytes}, {left(u, m), c.left_bytes}};
    i.workspace_bytes = c.backward_input_workspace;
    i.flops = c.backward_input_flops;
    i.bytes_moved = c.backward_input_bytes_moved;
    emit(std::move(i));
  }

  void backward_weight(int u, int m) {
    const UnitCost& c = costs[u];
    Instruction i{.op = Opcode::backward_weight, .unit = u, .micro = m};
    if (u > 0)
      i.reads = {output(u - 1, m), saved(u, m), left(u, m)};
    else if (keeps(u))
      i.reads = {saved(u, m)};
    if (u < last()) i.reads.push_back(gradient(u, m));
    i.frees = i.reads;  // the last reader of all of them
    i.workspace_bytes = c.backward_weight_workspace;
    i.flops = c.backward_weight_flops;
    i.bytes_moved = c.backward_weight_bytes_moved;
    emit(std::move(i));
  }

  // REDUCE reads two gradients, writes one and clears the other; NORM reads each gradient.
  void end_of_step(const CostQuery& query, const UpdateConfig& config) {
    const int64_t wide = query.dtype == DType::f64 ? 8 : 4;
    int64_t trained = 0;
    for (const UnitCost& c : costs) trained += c.trained;
    if (const int64_t n = own_table_gradient(spec.units.back(), query); n > 0)
      emit({.op = Opcode::reduce, .unit = 0, .micro = -1, .flops = n, .bytes_moved = 4 * n * wide});
    emit({.op = Opcode::norm, .unit = -1, .micro = -1, .flops = 2 * trained, .bytes_moved = trained * wide});
    for (int u = 0; u <= last(); ++u) {
      const UpdateCost c = update_cost(config, query.dtype, trained_forms(spec.units[u], query, costs[u]));
      emit({.op = Opcode::update, .unit = u, .micro = -1, .flops = c.flops, .bytes_moved = c.bytes_moved});
    }
  }
};

Emitter start(const ModelSpec& spec, std::span<const CostQuery> micro_batches, Recompute recompute) {
  TERN_CHECK(spec.units.size() >= 2, "program: {} units; a model has an embedding and a head", spec.units.size());
  TERN_CHECK(!micro_batches.empty(), "program: no micro-batches");
  Emitter e{spec, recompute, {}, {}};
  e.program.num_units = static_cast<int>(spec.units.size());
  e.program.num_micro = static_cast<int>(micro_batches.size());
  return e;
}

std::vector<UnitCost> costs_of(const ModelSpec& spec, const CostQuery& query) {
  std::vector<UnitCost> costs;
  for (const Unit& unit : spec.units) costs.push_back(unit_cost(unit, query));
  return costs;
}

}  // namespace

Program training_program(const ModelSpec& spec, std::span<const CostQuery> micro_batches, Recompute recompute,
                         const UpdateConfig& update) {
  Emitter e = start(spec, micro_batches, recompute);
  for (int m = 0; m < e.program.num_micro; ++m) {
    e.costs = costs_of(spec, micro_batches[m]);
    for (int u = 0; u <= e.last(); ++u) e.forward(u, m);
    for (int u = e.last(); u >= 1; --u) {
      if (e.remakes(u)) e.remake(u, m);
      e.backward_input(u, m);
      e.backward_weight(u, m);
    }
    e.backward_weight(0, m);
  }
  e.end_of_step(micro_batches.back(), update);
  return std::move(e.program);
}

Program forward_program(const ModelSpec& spec, std::span<const CostQuery> micro_batches) {
  Emitter e = start(spec, micro_batches, Recompute::none);
  for (int m = 0; m < e.program.num_micro; ++m) {
    e.costs = costs_of(spec, micro_batches[m]);
    for (int u = 0; u <= e.last(); ++u) {
      Instruction i = e.forward_of(Opcode::forward, u, m);
      e.keep_nothing(i);
      if (u == e.last()) i.flops /= 3;  // one product of three: no gradients
      if (u > 0) i.frees = {output(u - 1, m)};
      e.emit(std::move(i));
    }
  }
  return std::move(e.program);
}

}  // namespace tern
