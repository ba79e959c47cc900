#include "plan/legality.h"

#include <fmt/format.h>

namespace tern {
namespace {

std::string unit_rule(const Unit& unit, const Mesh& mesh) {
  const int64_t t = mesh.tensor;
  if (const AttentionSpec* a = attention_of(unit)) {
    if (a->heads % t) return fmt::format("tensor {}: does not divide {} heads", t, a->heads);
    if (a->kv_heads % t && t % a->kv_heads)
      return fmt::format("tensor {}: {} key-value heads are neither split nor repeated evenly", t, a->kv_heads);
    if (mesh.ulysses && mesh.context > 1) {
      const int64_t kv = (a->kv_heads + t - 1) / t;
      if (kv % mesh.context)
        return fmt::format("context {} (ulysses): does not divide the {} key-value heads of a rank", mesh.context, kv);
    }
  }
  if (const MlpSpec* m = mlp_of(unit)) {
    if (m->hidden % t) return fmt::format("tensor {}: does not divide the hidden width {}", t, m->hidden);
  } else if (const auto* e = std::get_if<MoeSpec>(&unit.spec)) {
    if (e->experts % mesh.expert) return fmt::format("expert {}: does not divide {} experts", mesh.expert, e->experts);
    if (e->hidden % mesh.expert_tensor)
      return fmt::format("expert tensor {}: does not divide the experts' width {}", mesh.expert_tensor, e->hidden);
    if (e->shared_hidden % t) return fmt::format("tensor {}: does not divide the shared expert", t);
  }
  return "";
}

}  // namespace

int64_t usable_devices(const Machine& m, const Mesh& mesh) {
  const int64_t group = mesh.tensor * mesh.context, node = m.node.num_devices;
  if (group <= node) return m.num_nodes * (node / group * group);
  const int64_t nodes = group / node;
  return group % node ? 0 : m.num_nodes / nodes * group;
}

std::string why_illegal(const ModelSpec& spec, const TrainJob& job, const Machine& m, const Mesh& mesh,
                        int64_t micro_batch) {
  if (job.batch % (mesh.data * micro_batch))
    return fmt::format("data {} × micro-batch {}: does not divide a batch of {}", mesh.data, micro_batch, job.batch);
  const int64_t parts = mesh.context == 1 ? 1 : mesh.ulysses ? mesh.context : 2 * mesh.context;
  if (job.seq % parts)
    return fmt::format("context {}: {} equal parts do not divide a sequence of {}", mesh.context, parts, job.seq);
  if (mesh.expert_tensor != 1 && mesh.expert_tensor != mesh.tensor)
    return fmt::format("expert tensor {}: experts are split like the rest ({}) or not at all", mesh.expert_tensor,
                       mesh.tensor);
  if (mesh.devices() % (mesh.expert * mesh.expert_tensor))
    return fmt::format("expert {} × {}: does not divide the {} ranks of a stage", mesh.expert, mesh.expert_tensor,
                       mesh.devices());
  for (const Unit& unit : spec.units)
    if (std::string rule = unit_rule(unit, mesh); !rule.empty()) return rule;
  const int64_t group = mesh.tensor * mesh.context;
  if (group > m.node.num_devices && group % m.node.num_devices)
    return fmt::format("tensor × context {}: neither lies within a node of {} devices nor fills whole nodes", group,
                       m.node.num_devices);
  return "";
}

std::string why_illegal_pipeline(const Machine& m, const OuterChoice& c, int num_layers) {
  const int P = c.num_stages, v = c.chunks_per_stage;
  if (c.devices() > usable_devices(m, c.mesh))
    return fmt::format("{} devices: only {} can be used in groups of {}", c.devices(), usable_devices(m, c.mesh),
                       c.mesh.tensor * c.mesh.context);
  if (P * v > num_layers) return fmt::format("{} stages × {} chunks: more than {} layers", P, v, num_layers);
  if (v < least_chunks(c.schedule)) return fmt::format("{}: at least two chunks per stage", name_of(c.schedule));
  return why_illegal_schedule(c.schedule, P, v, c.num_micro);
}

std::string why_illegal_schedule(PipelineSchedule s, int64_t num_stages, int64_t chunks, int64_t num_micro) {
  const PipelineScheduleTraits& t = traits_of(s);
  if (t.chunks != ChunkRule::several && chunks != least_chunks(s))
    return fmt::format("{} chunks: schedule {} has {} per stage", chunks, t.name,
                       t.chunks == ChunkRule::one ? "one" : "two");
  if (t.micro_divides_by_stages && num_micro % num_stages)
    return fmt::format("{}: {} micro-batches are no multiple of {} stages", t.name, num_micro, num_stages);
  return "";
}

std::string why_illegal(const Machine& m, const LayerStrategy& s) {
  if (s.zero < 0 || s.zero > 3) return fmt::format("zero {}: 0 to 3", s.zero);
  const auto missing = [&](Tier tier) {
    return (tier == Tier::host && m.host_capacity() <= 0) || (tier == Tier::disk && m.disk_capacity() <= 0);
  };
  if (missing(s.states) || missing(s.activations)) return "a tier the machine does not have";
  return "";
}

}  // namespace tern
