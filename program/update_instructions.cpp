#include "program/update_instructions.h"

#include "base/rounding.h"
#include "base/wide_type.h"

namespace tern {
namespace {

int64_t value_bytes(int64_t blocks, int values) { return blocks * values * int64_t{sizeof(double)}; }

}  // namespace

bool sums_over_model(const Placement& at) { return row_of(at.update.rule).sums.over == UpdateSums::Over::model; }

bool is_shared_out(const Placement& at, int l) { return at.layers[l].strategy.zero >= 1 && at.mesh.replicas() > 1; }

// Costs: 2 flops and a word of the wide type per element. Messages, none in a run of one rank: 8 bytes that say whether a rank refuses
// the gradients; in tensor groups 8 for each rank of the run; else, for each shared block, 8 for its sum of squares and 8 for each of
// the rule's sums over the model.
Instruction norm_instruction(const Placement& at, int64_t trained, int64_t shared_blocks) {
  const int values = 1 + (sums_over_model(at) ? num_sums(at.update) : 0);
  const int64_t wide = size_of(wide_type(at.query(0, 0).dtype));
  const bool alone = at.shape.num_devices == 1 && at.mesh.devices() == 1;
  const int64_t blocks = at.mesh.tensor > 1 ? 0 : shared_blocks, ranks = at.shape.num_devices * at.mesh.devices();
  return {.op = Opcode::norm,
          .unit = -1,
          .micro = -1,
          .flops = 2 * trained,
          .bytes_moved = trained * wide,
          .axis = alone ? MeshAxis::none : MeshAxis::all,
          .message_bytes = alone ? 0
                                 : value_bytes(1, 1) + value_bytes(blocks, values) +
                                       (at.mesh.tensor > 1 ? value_bytes(ranks, 1) : 0)};
}

// Costs: update_cost, from ZeRO 1 on divided by the replicas. Messages of a unit that is shared out: for each block 8 bytes for each of
// the rule's sums over a parameter. States on the disk: the bytes read and written.
Instruction update_instruction(const ModelSpec& spec, const Placement& at, const UnitCost& cost, const UpdatedUnit& u) {
  const Unit& unit = spec.units[u.unit];
  const CostQuery query = at.query(u.unit, 0);
  std::vector<CountedForm> forms = trained_forms(unit, query, cost);
  if (u.table_copy) forms.push_back({{ParameterKind::table, ceil_div(spec.vocab, query.tensor), spec.width}});
  UpdateCost c = update_cost(at.update, query.dtype, forms);
  // States on the disk pass through memory: read, and written back.
  const bool alone = at.shape.num_devices == 1 && at.mesh.devices() == 1;
  const bool stored = alone && at.layers[u.layer].strategy.states == Tier::disk;
  const int64_t passing = stored ? 2 * state_bytes(at.update, query.dtype, forms) : 0;
  const int64_t replicas = at.mesh.replicas();
  if (at.layers[u.layer].strategy.zero >= 1) c = {ceil_div(c.flops, replicas), ceil_div(c.bytes_moved, replicas)};
  const int sums = num_sums(at.update);
  const bool exchanges = is_shared_out(at, u.layer) && sums > 0 && !sums_over_model(at) && cost.trained > 0;
  const int64_t blocks = trained_blocks(unit) + (u.table_copy ? ceil_div(spec.vocab * spec.width, kUpdateBlock) : 0);
  return {.op = Opcode::update,
          .unit = u.unit,
          .micro = -1,
          .workspace_bytes = update_workspace(at.update, query.dtype, forms),
          .flops = c.flops,
          .bytes_moved = c.bytes_moved,
          .axis = exchanges ? MeshAxis::replicas : MeshAxis::none,
          .message_bytes = exchanges ? value_bytes(blocks, sums) : passing};
}

}  // namespace tern
