#include "plan/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "hardware/rates.h"
#include "plan/comm_cost.h"
#include "plan/job_windows.h"
#include "plan/unit_times.h"
#include "plan/window_mix.h"
#include "spec/context_cost.h"
#include "spec/recompute.h"

namespace tern {
namespace {
// What is asked of each unit, by one rank.
struct FactsQuery {
  const TrainJob& job;
  const Machine& machine;
  const Mesh& mesh;
  UpdateConfig update;
  CostQuery query;
};

// What each kind of recomputation in part adds, for units of blocks.
std::array<int64_t, kPartRecomputes.size()> made_again_of(const Unit& unit, const UnitTimes& t) {
  if (!is_recomputed(unit, Recompute::full)) return {};
  const auto products =
      static_cast<int64_t>(std::llround(static_cast<double>(t.products) * second_products_share(unit)));
  return {0, t.scores, t.forward - t.scores - t.reduced - t.products + products, t.forward / 2};
}

UnitFacts facts_of(const FactsQuery& z, const Unit& unit, int64_t input_bytes) {
  const UnitCost c = unit_cost_in_mesh(unit, z.query, z.mesh);
  const UnitTimes t = unit_times(z.job, z.machine, z.mesh, z.query, unit, c);
  UnitFacts f;
  f.forward = t.forward, f.backward = t.backward, f.weight = t.weight;
  f.made_again = made_again_of(unit, t), f.narrowed_weights = t.narrowed_weights;
  f.parameters[0] = c.parameters - c.expert_parameters, f.parameters[1] = c.expert_parameters;
  f.trained[0] = c.trained - c.expert_trained, f.trained[1] = c.expert_trained;
  const std::vector<CountedForm> forms = trained_forms(unit, z.query, c);
  for (const CountedForm& form : forms)
    f.state_bytes[form.expert] += form.count * state_bytes(z.update, z.job.dtype, form.form);
  f.widest[0] = widest_share(forms, false, z.update, z.job.dtype, z.mesh.replicas());
  f.widest[1] = widest_share(forms, true, z.update, z.job.dtype, z.mesh.expert_replicas());
  f.input_bytes = input_bytes, f.output_bytes = c.output_bytes;
  f.saved_bytes = c.saved_bytes, f.left_bytes = c.left_bytes;
  f.forward_workspace = c.forward_workspace, f.unsaved_workspace = c.unsaved_workspace;
  f.backward_workspace = std::max(c.backward_input_workspace, c.backward_weight_workspace);
  f.remade_by_attention = is_recomputed(unit, Recompute::attention);
  f.remade_by_full = is_recomputed(unit, Recompute::full);
  if (const auto* h = std::get_if<HeadSpec>(&unit.spec)) f.shares_table = h->tied;
  f.own_table_gradient = own_table_gradient(unit, z.query);
  if (std::holds_alternative<BridgeSpec>(unit.spec)) f.shares_table = true;
  return f;
}

bool is_remade(const UnitFacts& u, Recompute r) {
  return r == Recompute::full ? u.remade_by_full : r == Recompute::attention && u.remade_by_attention;
}

// Sums over the parameters of a layer: dense ones over the replicas, experts over fewer.
struct Sharing {
  SharedBytes bytes;
  int64_t gather = 0, gather_trained = 0, reduce = 0, all_reduce = 0;  // ps
  int64_t gathered_bytes = 0, gradient_bytes = 0;  // of the whole layer; gradients: what several ranks sum
};

Sharing sharing_of(const TrainJob& job, const Machine& machine, const Mesh& mesh, const LayerParameters& n, int zero) {
  const int64_t s = size_of(job.dtype), g = size_of(job.gradients);
  const RankGroup groups[2]{{mesh.replicas(), mesh.tensor}, {mesh.expert_replicas(), mesh.expert * mesh.expert_tensor}};
  Sharing r{.bytes = shared_bytes(job, mesh, n, zero)};
  for (int i = 0; i < 2; ++i) {
    const int64_t ranks = groups[i].ranks, parameters = n.all[i] + (i == 0 ? n.lent : 0), trained = n.trained[i];
    if (ranks == 1) continue;
    if (parameters) r.gather += all_gather_ps(machine, groups[i], parameters * s);
    if (!trained) continue;
    r.gather_trained += all_gather_ps(machine, groups[i], trained * s);
    r.reduce += reduce_scatter_ps(machine, groups[i], trained * g);
    r.all_reduce += all_reduce_ps(machine, groups[i], trained * g);
    r.gradient_bytes += trained * g;
  }
  r.gathered_bytes = (n.all[0] + n.all[1] + n.lent) * s;
  return r;
}

// One step's update of the shard's trained elements, its states on a tier.
int64_t update_ps(const TrainJob& job, const Machine& m, const Sharing& share, Tier states) {
  if (share.bytes.shard == 0) return 0;
  const double n = static_cast<double>(share.bytes.shard), devices = static_cast<double>(m.node.num_devices);
  const double s = static_cast<double>(size_of(job.dtype)), g = static_cast<double>(size_of(job.gradients));
  const double state = static_cast<double>(share.bytes.states);
  const double touched = 2 * state + n * (g + s);
  if (states == Tier::device) return ps_of(touched, update_rate(m.device, job.dtype)) + m.device.launch_ps;
  // Gradients out, weights back and the host's arithmetic run beside each other; the slowest counts.
  int64_t slowest = std::max({ps_of(n * g, m.node.host_link_bandwidth), ps_of(n * s, m.node.host_link_bandwidth),
                              ps_of(touched, m.node.host_bandwidth / devices)});
  if (states == Tier::disk)
    slowest = std::max({slowest, ps_of(state, m.node.disk_read / devices), ps_of(state, m.node.disk_write / devices)});
  return slowest + 2 * m.node.host_link_latency_ps;
}

}  // namespace

LayerCosts::LayerCosts(const ModelSpec& spec, const TrainJob& job, const Machine& machine, const Mesh& mesh,
                       int64_t micro_batch, bool other_groups, std::optional<Framework> bytes_of, FrameworkRun run)
    : job_(job),
      machine_(machine),
      mesh_(mesh),
      in_one_node_(machine.num_nodes == 1 && !other_groups),
      bytes_of_(bytes_of && has_own_bytes(*bytes_of) ? bytes_of : std::nullopt),
      run_(run) {
  // Experts on several ranks exchange rows in each layer, so that ranks wait for each other there.
  const bool waits = mesh.expert > 1;
  units_ = facts_for(spec, micro_batch, waits ? micro_batch : std::max<int64_t>(1, job.batch / mesh.data));
  for (size_t u = 0; u + 1 < units_.size(); ++u) largest_message_ = std::max(largest_message_, units_[u].output_bytes);
  if (job.lengths.given() && mesh.data > 1 && !waits) waiting_ = facts_for(spec, micro_batch, micro_batch);
}

std::vector<UnitFacts> LayerCosts::facts_for(const ModelSpec& spec, int64_t micro_batch, int64_t windows) {
  FactsQuery z{job_, machine_, mesh_, update_config(job_.optimizer), {}};
  z.query = {.tokens = micro_batch * shard_of(job_.seq, mesh_.context),
             .dtype = job_.dtype,
             .tensor = mesh_.tensor,
             .expert = mesh_.expert,
             .expert_tensor = mesh_.expert_tensor,
             .capacity_factor = job_.capacity_factor};
  std::vector<UnitFacts> units;
  int64_t input = 0;
  for (size_t u = 0; u < spec.units.size(); ++u) {
    const Unit& unit = spec.units[u];
    // Blocks repeat: the facts of an equal unit with an equal input are the same.
    size_t same = u;
    for (size_t back = 1; back <= 3 && back <= u && same == u; ++back) {
      Unit before = spec.units[u - back];
      before.layer = unit.layer;
      if (before == unit && units[u - back].input_bytes == input) same = u - back;
    }
    if (same != u) {
      units.push_back(units[same]);
    } else {
      z.query.attended_pairs = 0;
      if (const AttentionSpec* a = attention_of(unit))
        z.query.attended_pairs = shard_of(micro_batch_pairs(job_, *a, micro_batch, mesh_.data, windows), mesh_.context);
      units.push_back(facts_of(z, unit, input));
      if (bytes_of_) replace_bytes(unit, z.query, units.back());
      if (units.back().shares_table) { table_ = table_copy(spec, unit, z.query, z.update, mesh_); }
    }
    input = units.back().output_bytes;
  }
  return units;
}

void LayerCosts::replace_bytes(const Unit& unit, const CostQuery& query, UnitFacts& f) const {
  const FrameworkUnit u = framework_unit(*bytes_of_, unit, query, run_);
  f.output_bytes = u.output, f.saved_bytes = u.saved, f.left_bytes = 0;
  f.forward_workspace = f.unsaved_workspace = f.backward_workspace = u.workspace;
}

LayerParameters LayerCosts::parameters_of(const Layer& layer, bool pipelined) const {
  LayerParameters n;
  for (int i = 0; i < layer.count; ++i) {
    const UnitFacts& u = units_[static_cast<size_t>(layer.first + i)];
    for (int part = 0; part < 2; ++part) {
      n.all[part] += u.parameters[part], n.trained[part] += u.trained[part];
      n.state_bytes[part] += u.state_bytes[part], n.widest[part] += u.widest[part];
    }
    if (!pipelined && !bytes_of_) n.own_gradients += u.own_table_gradient;  // of tern alone
    if (!u.shares_table) continue;
    if (!pipelined) {
      n.lent += table_.parameters;
      continue;
    }
    n.all[0] += table_.parameters, n.trained[0] += table_.trained, n.state_bytes[0] += table_.state_bytes;
    n.widest[0] += table_.widest;
    ++n.tables;
  }
  return n;
}

PlannedMemoryByTier LayerCosts::persistent(const Layer& layer, const LayerStrategy& st, bool pipelined) const {
  const LayerParameters n = parameters_of(layer, pipelined);
  Sharing share = sharing_of(job_, machine_, mesh_, n, st.zero);
  if (bytes_of_) share.bytes = framework_states(*bytes_of_, job_, share.bytes, n.all[0] + n.all[1], st.zero);
  PlannedMemoryByTier m;
  m[0].weights = share.bytes.weights, m[0].gradients = share.bytes.gradients;
  m[static_cast<size_t>(st.states)].optimizer = share.bytes.states;
  return m;
}

// Activations of so many bytes to the tier and back.
static void add_host_times(const Machine& machine, Tier tier, int64_t held, CostVector& c) {
  const double devices = static_cast<double>(machine.node.num_devices);
  double out = machine.node.host_link_bandwidth, in = out;
  if (tier == Tier::disk)
    out = std::min(out, machine.node.disk_write / devices), in = std::min(in, machine.node.disk_read / devices);
  c.host_forward = ps_of(static_cast<double>(held), out) + machine.node.host_link_latency_ps;
  c.host_backward = ps_of(static_cast<double>(held), in) + machine.node.host_link_latency_ps;
}

// What a layer holds between its passes, and most in one. A framework makes a whole layer again from its input, where
// the engine here makes one unit after the other again, each from its own.
void LayerCosts::add_activations(const Layer& layer, const LayerStrategy& st, CostVector& c) const {
  int64_t held = 0, whole = 0;
  for (int i = 0; i < layer.count; ++i) {
    const UnitFacts& u = units_[static_cast<size_t>(layer.first + i)];
    const bool remade = is_remade(u, st.recompute), inner = bytes_of_ && remade && i > 0;
    held += (inner ? 0 : u.input_bytes) + (remade ? 0 : u.saved_bytes);
    c.held_weight += u.input_bytes + u.saved_bytes + u.left_bytes + u.output_bytes;  // x, saved, left, dy
    if (bytes_of_ && remade) whole += (inner ? u.input_bytes : 0) + u.saved_bytes;
    const int64_t forward = u.output_bytes + (remade ? u.unsaved_workspace : u.forward_workspace);
    const int64_t again = remade ? u.saved_bytes + std::max(u.output_bytes + u.forward_workspace, u.left_bytes) : 0;
    const int64_t backward = (remade && !bytes_of_ ? u.saved_bytes : 0) + u.left_bytes + u.output_bytes +
                             u.input_bytes + u.backward_workspace;
    c.transient = std::max({c.transient, forward, bytes_of_ ? 0 : again, backward});
  }
  c.transient += whole;
  c.held[static_cast<size_t>(st.activations)] = held;
}

// Copies of weights in 8 bits are kept from the step's first micro-batch on; those of ZeRO 3 go with what was gathered. Source:
// TransformerEngine's Linear (is_first_microbatch), which Megatron-LM sets once a step; TorchTitan narrows in FSDP2's gathers.
static void add_narrowed_weights(int64_t ps, int zero, CostVector& c) {
  if (zero == 3)
    c.forward += ps, c.backward += ps;
  else
    c.begin += ps;
}

// What is waited for of a layer's weights, gathered once a step; beside computing: what takes longer than the layer's first forward pass.
// Source: Megatron-LM, --overlap-param-gather, which gathers a bucket while the one before it is computed.
static int64_t open_gather(const Machine& machine, int64_t gather, int64_t forward) {
  const bool beside = machine.device.framework.traits.gathers_weights_beside;
  return std::max<int64_t>(0, gather - (beside ? forward : 0));
}

CostVector LayerCosts::cost(const Layer& layer, const LayerStrategy& st, bool pipelined, PartRecompute part) const {
  CostVector c;
  const std::vector<UnitFacts>& units = st.zero >= 2 && !waiting_.empty() ? waiting_ : units_;
  for (int i = 0; i < layer.count; ++i) {
    const UnitFacts& u = units[static_cast<size_t>(layer.first + i)];
    c.forward += u.forward, c.backward += u.backward, c.weight += u.weight;
    c.recompute += is_remade(u, st.recompute) ? u.forward : u.made_again[static_cast<size_t>(part)];
    add_narrowed_weights(u.narrowed_weights, st.zero, c);
  }
  add_activations(layer, st, c);
  if (pipelined && !bytes_of_)
    c.transient += 4 * largest_message_;  // two each way wait for a JOIN, at the turn of a V one for its next stage

  const LayerParameters n = parameters_of(layer, pipelined);
  Sharing share = sharing_of(job_, machine_, mesh_, n, st.zero);
  if (bytes_of_) share.bytes = framework_states(*bytes_of_, job_, share.bytes, n.all[0] + n.all[1], st.zero);
  c.persistent[0] = share.bytes.weights + share.bytes.gradients;
  c.persistent[static_cast<size_t>(st.states)] += share.bytes.states;
  c.update = update_ps(job_, machine_, share, st.states);

  const int64_t compute = c.backward + c.weight + c.recompute;
  if (st.zero == 0) c.sync = share.all_reduce;
  if (st.zero == 1) c.sync = share.reduce;
  if (st.zero == 1 || st.zero == 2) c.begin += open_gather(machine_, share.gather_trained, c.forward);
  if (layer.first == 0) c.begin += machine_.device.framework.step_ps;
  if (st.zero >= 2) {
    const bool gathers = st.zero == 3;
    const int64_t link = share.reduce + (gathers ? share.gather : 0);
    c.weight += std::max<int64_t>(0, link - compute);
    c.sync = std::min(share.reduce, compute);
    if (!bytes_of_ && layer.first + layer.count == static_cast<int>(units_.size())) {
      c.held[0] += share.gradient_bytes;  // of a micro-batch: its sum begins in the forward pass
      c.held_weight += share.gradient_bytes;
    } else {
      c.transient += share.gradient_bytes;
    }
    if (gathers) {
      c.transient += 2 * share.gathered_bytes;  // this layer's and the next one's, on its way
      c.entry_forward = std::min(share.gather, c.forward);
      c.entry_backward = std::min(share.gather, compute);
      c.forward = std::max(c.forward, share.gather);
    }
  }
  if (const double hidden = machine_.device.framework.sync_hidden; hidden < 1) {
    const int64_t open = counted_ps(static_cast<double>(c.sync) * (1 - hidden));
    c.sync -= std::min(c.sync, open), c.update += open;
  }
  if (n.tables > 0)  // between the first stage and the last
    c.sync += n.tables * 2 * send_ps(machine_, mesh_.devices(), in_one_node_, table_.trained * size_of(job_.gradients));

  if (const int64_t held = c.held[static_cast<size_t>(st.activations)]; st.activations != Tier::device && held > 0) {
    add_host_times(machine_, st.activations, held, c);
    c.transient += 2 * held;  // this layer's, and the next one's on its way
  }
  for (int64_t* ps : {&c.forward, &c.backward, &c.weight, &c.recompute, &c.host_forward, &c.host_backward,
                      &c.entry_forward, &c.entry_backward, &c.begin, &c.sync, &c.update})
    *ps = std::min(*ps, kMostPs);
  return c;
}

LongestTimes longest_times(const LayerCosts& costs, const std::vector<Layer>& layers,
                           const std::vector<LayerStrategy>& strategies, bool pipelined) {
  LongestTimes all;
  std::vector<LongestTimes> kinds;  // numbered as they first occur
  for (const Layer& layer : layers) {
    if (layer.kind == static_cast<int>(kinds.size())) {
      LongestTimes& own = kinds.emplace_back();
      int64_t largest = 0;
      const auto add = [&](std::initializer_list<int64_t> times) {
        double sum = 0;
        for (const int64_t ps : times) sum += static_cast<double>(ps), largest = std::max(largest, ps);
        return sum;
      };
      for (const LayerStrategy& s : strategies) {
        const CostVector c = costs.cost(layer, s, pipelined);
        own.micro = std::max(own.micro, add({c.forward, c.backward, c.weight, c.recompute, c.host_forward,
                                             c.host_backward, c.entry_forward, c.entry_backward}));
        own.once = std::max(own.once, add({c.begin, c.sync, c.update}));
      }
      const EdgeCost far = costs.edge(layer, false), near = costs.edge(layer, true);
      own.micro += pipelined ? std::max(add({far.forward, far.backward}), add({near.forward, near.backward})) : 0;
      // Differences of a time that was cut off and another one are not above kMostPs, but near it.
      if (largest >= kMostPs / 2) own.micro = std::numeric_limits<double>::infinity();
    }
    all.micro += kinds[static_cast<size_t>(layer.kind)].micro, all.once += kinds[static_cast<size_t>(layer.kind)].once;
  }
  return all;
}

EdgeCost LayerCosts::edge(const Layer& left, bool inside) const {
  const int64_t bytes = units_[static_cast<size_t>(left.first + left.count - 1)].output_bytes;
  const double share = machine_.device.framework.send_share;
  const int64_t whole = share == 1 ? bytes : static_cast<int64_t>(std::ceil(static_cast<double>(bytes) / share));
  const int64_t ps = send_ps(machine_, mesh_.devices(), inside, whole);
  return {ps, ps};
}

}  // namespace tern
