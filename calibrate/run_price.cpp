#include "calibrate/run_price.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "calibrate/ready_pipelines.h"
#include "hardware/cluster.h"
#include "hardware/machine.h"
#include "plan/cost_model.h"
#include "spec/presets.h"

namespace tern {
namespace {

ModelSpec model_of(const PublishedRun& run, const std::string& path) {
  if (run.model.empty())
    return decoder_of({.vocab = run.vocabulary,
                       .width = run.width,
                       .layers = run.layers,
                       .heads = run.heads,
                       .context = run.job.seq,
                       .kv_heads = run.kv_heads});
  if (std::optional<ModelSpec> preset = preset_model(run.model)) return *std::move(preset);
  std::vector<std::string_view> names = preset_names();
  throw Error(ErrorKind::bad_file, "{}:{}: model: '{}' is no preset ({}){}", path, run.line, run.model,
              join({names.begin(), names.end()}, ", "), did_you_mean(run.model, names));
}

// What is wrong with what the row says of experts; "": nothing.
std::string fault_of_experts(const ModelSpec& spec, const PublishedRun& run) {
  const Mesh& mesh = run.choice.mesh;
  int64_t experts = 0;
  for (const Unit& u : spec.units)
    if (const auto* e = std::get_if<MoeSpec>(&u.spec)) experts = e->experts;
  if (experts == 0)
    return mesh.expert > 1 || mesh.expert_tensor > 1
               ? "expert parallelism: the model has no experts; leave it out, or 1"
               : "";
  const std::string model = make_printable(run.model);
  if (!run.experts_stated)
    return fmt::format(
        "expert parallelism: missing; '{}' has {} experts to a block: over how many ranks are they spread "
        "(1: each rank has all)?",
        model, experts);
  if (run.part == PartRecompute::operations)
    return fmt::format("recompute: '{}' says nothing of the products of experts, which '{}' has; expected another kind",
                       name_of(run.part), model);
  if (mesh.tensor > 1 && !run.traits.sequence_parallel)  // Source: Megatron-LM, which refuses it
    return fmt::format(
        "sequence parallelism: off, but '{}' has experts, which take a tensor rank's own rows; expected on", model);
  return "";
}

}  // namespace

RunPricer::RunPricer(const PublishedRun& run, const Cluster& cluster, const std::string& path,
                     ReadyPipelines& pipelines)
    : run_(run) {
  const ModelSpec spec = model_of(run, path);
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::bad_file, "{}:{}: {}", path, run_.line, what);
  };
  const std::vector<Layer> layers = layers_of(spec);
  const OuterChoice& c = run_.choice;
  TERN_CHECK(layers.size() >= 2, "RunPricer: a model of {} layers", layers.size());
  const auto blocks = static_cast<int>(layers.size()) - 2;
  // The first chunk may hold the embedding alone, the last one the head.
  if (blocks + 2 < c.num_stages * c.chunks_per_stage)
    fail(fmt::format("{} blocks, the embedding and the head for {} stages of {} chunks; each holds at least one",
                     blocks, c.num_stages, c.chunks_per_stage));
  for (int u = 1; u <= blocks; ++u)
    if (layers[static_cast<size_t>(u)].kind != layers[1].kind)
      fail(fmt::format("'{}' has blocks of several kinds; a table's rows are of models whose blocks are alike",
                       make_printable(run_.model)));
  if (const int64_t learned = learned_positions(spec); learned > 0 && run_.model.size() && run_.job.seq > learned)
    fail(fmt::format("sequence length: {} tokens, '{}' has {} learned positions", run_.job.seq,
                     make_printable(run_.model), learned));
  if (const std::string fault = fault_of_experts(spec, run_); !fault.empty()) fail(fault);
  // Elements and multiply-adds of a unit are counted in 63 bits.
  const auto d = [](int64_t x) { return static_cast<double>(x); };
  const double tokens = d(c.micro_batch) * d(run_.job.seq), width = d(spec.width);
  if (tokens * (10 * d(run_.job.seq) * width + 32 * width * width + 32 * d(spec.vocab)) > 0x1p60 ||
      32 * width * (d(spec.vocab) + width) > 0x1p60)
    fail("a micro-batch of more work than is counted");
  if (run_.model.size()) run_.layers = blocks, run_.width = spec.width;
  if (cluster.groups.size() != 1)
    throw Error(ErrorKind::usage, "{}: has {} groups of nodes; rows of a table are runs on nodes of one type",
                cluster.path, cluster.groups.size());
  const int64_t each = cluster.nodes[static_cast<size_t>(cluster.groups[0].node)].num_devices;
  num_nodes_ = (run_.devices() + each - 1) / each;
  if (const int64_t joined = cluster.network.empty() ? 1 : cluster.network.back().nodes; num_nodes_ > joined)
    fail(fmt::format("# GPUs: {} are {} nodes, the network of '{}' joins {}", run_.devices(), num_nodes_, cluster.name,
                     joined));
  const Machine machine = machine_of(with_nodes(cluster, num_nodes_), 0);
  if (std::string why = why_illegal(spec, run_.job, machine, c.mesh, c.micro_batch); !why.empty()) fail(why);
  if (std::string why = why_illegal_pipeline(machine, c, static_cast<int>(layers.size())); !why.empty()) fail(why);
  if (operations_of(c) > kMostOperations)
    fail(fmt::format("{} stages × {} chunks × {} micro-batches: more than {} operations are not simulated",
                     c.num_stages, c.chunks_per_stage, c.num_micro, kMostOperations));
  few_ = spec;
  few_.units.erase(few_.units.begin() + layers[2].first, few_.units.begin() + layers.back().first);
  few_layers_ = layers_of(few_), num_blocks_ = blocks;
  shape_ = {c.schedule, c.num_stages, c.chunks_per_stage, static_cast<int>(c.num_micro)};
  if (!order_follows_times(c.schedule)) {
    ready_ = pipelines.of(shape_, times_on(machine, prices_on(machine)), fmt::format("{}:{}", path, run_.line));
  }
}

// Where blocks do not divide, the last and the first stage have one less, then their neighbours: head and embedding
// weigh too. Source: Llama 3 (arXiv:2407.21783, section 3.3.2) takes a layer off its first and its last stage for that.
int RunPricer::blocks_of(int s) const {
  const int stages = shape_.num_virtual_stages(), most = (num_blocks_ + stages - 1) / stages;
  const int lacking = most * stages - num_blocks_, from_end = stages - 1 - s;
  const int turn = from_end < s ? 2 * from_end : 2 * s + 1;
  return most - (turn < lacking ? 1 : 0);
}

// Whether stage s and the next lie in one node: stages fill nodes one after another.
bool RunPricer::inside(const Machine& m, int s) const {
  const Mesh& x = run_.choice.mesh;
  const int64_t group = x.tensor * x.context, node = m.node.num_devices;
  const int64_t stages = group > node ? 0 : node / group * group / x.devices();
  return stages > 0 && device_of(shape_, s) / stages == device_of(shape_, s + 1) / stages;
}

Machine RunPricer::with_traits(const Machine& machine) const {
  Machine m = machine;
  m.device.framework.traits = run_.traits;
  return m;
}

LayerPrices RunPricer::prices_on(const Machine& any) const {
  const Machine machine = with_traits(any);
  const OuterChoice& c = run_.choice;
  const LayerCosts costs(few_, run_.job, machine, c.mesh, c.micro_batch);
  const auto cost = [&](size_t i) { return costs.cost(few_layers_[i], run_.strategy, c.num_stages > 1, run_.part); };
  return {{cost(0), cost(1), cost(2)}, costs.edge(few_layers_[1], false), costs.edge(few_layers_[1], true)};
}

bool RunPricer::shares_prices_with(const RunPricer& other) const {
  const PublishedRun &a = run_, &b = other.run_;
  TrainJob job = a.job;
  job.batch = b.job.batch;
  return job == b.job && a.choice.mesh == b.choice.mesh && a.choice.micro_batch == b.choice.micro_batch &&
         (a.choice.num_stages > 1) == (b.choice.num_stages > 1) && a.strategy == b.strategy && a.part == b.part &&
         a.traits == b.traits && num_nodes_ == other.num_nodes_ && few_.units == other.few_.units;
}

// stage_times of full_instance, without making that: blocks are alike.
PipelineTimes RunPricer::times_on(const Machine& machine, const LayerPrices& prices) const {
  const auto& [embedding, block, head] = prices.layers;
  const int stages = shape_.num_virtual_stages();
  StageTimes sum(shape_);
  for (int s = stages - 1; s >= 0; --s) {
    const bool begins = s == 0, ends = s + 1 == stages;
    const bool alone = blocks_of(s) == 0;  // the head or the embedding
    if (ends) sum.add(s, head, {}, alone && !begins, true);
    for (int left = blocks_of(s); left > 0; --left)
      sum.add(s, block, {}, left == 1 && !begins, left == blocks_of(s) && !ends);
    if (begins) sum.add(s, embedding, {}, true, alone && !ends);
  }
  PipelineTimes t = sum.finish();
  for (int s = 0; s + 1 < stages; ++s) {
    const EdgeCost& e = inside(machine, s) ? prices.near : prices.far;
    t.send_forward.push_back(e.forward), t.send_backward.push_back(e.backward);
  }
  return t;
}

int64_t RunPricer::step_ps(const Machine& machine, const LayerPrices& prices) const {
  TERN_CHECK(machine.num_nodes == num_nodes_, "RunPricer: {} nodes, the run has {}", machine.num_nodes, num_nodes_);
  const PipelineTimes t = times_on(machine, prices);
  if (!ready_) return run_pipeline(shape_, pipeline_order(shape_, t), t).makespan;
  run_pipeline(ready_->prepared, t, ready_->scratch, ready_->run);
  return ready_->run.makespan;
}

Instance RunPricer::full_instance(const Machine& any) const {
  const Machine machine = with_traits(any);
  const OuterChoice& c = run_.choice;
  const ModelSpec spec = model_of(run_, "");
  const LayerCosts costs(spec, run_.job, machine, c.mesh, c.micro_batch);
  Instance in{.num_stages = c.num_stages,
              .chunks_per_stage = c.chunks_per_stage,
              .num_micro = static_cast<int>(c.num_micro),
              .schedule = c.schedule};
  const std::vector<Layer> layers = layers_of(spec);
  std::vector<EdgeCost> far, near;
  for (const Layer& layer : layers) {
    in.cost.push_back({costs.cost(layer, run_.strategy, c.num_stages > 1, run_.part)});
    far.push_back(costs.edge(layer, false)), near.push_back(costs.edge(layer, true));
  }
  in.other_across.resize(1);
  for (size_t u = 0; u + 1 < layers.size(); ++u) {
    in.within.push_back({EdgeCost{}});
    in.across.push_back({far[u]}), in.other_across[0].push_back({near[u]});
  }
  for (int s = 0; s + 1 < shape_.num_virtual_stages(); ++s) in.link_class.push_back(inside(machine, s) ? 1 : 0);
  if (in.link_class.empty()) in.other_across.clear();
  in.capacity.assign(static_cast<size_t>(c.num_stages),
                     TierBytes{machine.device_capacity(), machine.host_capacity(), machine.disk_capacity()});
  return in;
}

Assignment RunPricer::full_assignment() const {
  Assignment a;
  const int stages = shape_.num_virtual_stages();
  for (int s = 0; s < stages; ++s) {
    const int layers = blocks_of(s) + (s == 0 ? 1 : 0) + (s == stages - 1 ? 1 : 0);
    a.stage.insert(a.stage.end(), static_cast<size_t>(layers), s);
  }
  a.strategy.assign(a.stage.size(), 0);
  return a;
}

}  // namespace tern
