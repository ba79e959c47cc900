#include "planner/judges/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/io.h"
#include "base/text.h"
#include "hardware/machine.h"
#include "hardware/rates.h"
#include "plan/cost_model.h"
#include "plan/job_windows.h"
#include "plan/legality.h"
#include "plan/window_mix.h"
#include "planner/judges/job_difference.h"
#include "program/pipeline.h"
#include "program/pipeline_peaks.h"
#include "program/pipeline_run.h"
#include "program/plan_program.h"
#include "spec/recompute.h"
#include "spec/training_flops.h"

namespace tern {
namespace {

// Bytes are those of the framework that the space is of.
LayerCosts costs_of(const ModelSpec& spec, const PlanRequest& request, const Machine& m, const Mesh& mesh,
                    int64_t micro_batch, size_t machines) {
  return LayerCosts(spec, request.job, m, mesh, micro_batch, machines > 1, request.space.pinned.framework);
}

int64_t experts_of(const ModelSpec& spec) {
  for (const Unit& u : spec.units)
    if (const auto* e = std::get_if<MoeSpec>(&u.spec)) return e->experts;
  return 0;
}

/// Whether virtual stage s and the next lie in one node: stages fill nodes one after another.
bool near(const Machine& m, const OuterChoice& c, int s) {
  const int64_t group = c.mesh.tensor * c.mesh.context, node = m.node.num_devices;
  const int64_t stages = group > node ? 0 : node / group * group / c.mesh.devices();
  const PipelineShape shape{c.schedule, c.num_stages, c.chunks_per_stage, static_cast<int>(c.num_micro)};
  return stages > 0 && device_of(shape, s) / stages == device_of(shape, s + 1) / stages;
}

bool contains(const auto& list, const auto& x) { return std::find(list.begin(), list.end(), x) != list.end(); }

class PlanJudge {
 public:
  PlanJudge(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request, const Plan& plan)
      : spec_(spec),
        cluster_(cluster),
        request_(request),
        plan_(plan),
        layers_(layers_of(spec)),
        machines_(machines_of(cluster)) {
    out_.unlike_left =
        machines_.size() > 1 && !cluster.network.empty() && request.space.max_stages > 1 && !request.space.pinned.even;
  }

  PlanAudit run() {
    out_.reason = why_not();
    if (!out_.reason.empty()) return out_;  // rejected, or not judged
    out_.proven_ps = plan_.bound_ps;
    for (const Machine& m : machines_) over_meshes(m);
    const int64_t legal = plan_.counts.legal, open = out_.count(AuditedBy::open);
    if (out_.unlike_left ? legal < out_.choices : legal != out_.choices) {
      out_.reason = fmt::format("it speaks of {} outer choices; there are {}{} (was it made for another space?)", legal,
                                out_.choices, out_.unlike_left ? " at least" : "");
    } else if (open > 0) {
      out_.verdict = Verdict::unproven;
      out_.reason = fmt::format("its bound is not proven for {} of {} choices{}", open, out_.choices,
                                out_.late ? ", for want of time" : "");
    } else if (out_.unlike_left) {
      out_.verdict = Verdict::in_part;
      out_.reason = "pipelines over nodes of several types are in the space, and were not judged";
    } else {
      out_.verdict = Verdict::accepted;
    }
    return out_;
  }

  Instance instance() const {
    const Machine* m = machine_of_plan();
    TERN_CHECK(m, "audit: the plan's node '{}' is not in the cluster", plan_.node);
    Instance in;
    fill(in, *m, costs_of(spec_, request_, *m, plan_.choice.mesh, plan_.choice.micro_batch, machines_.size()),
         plan_.choice.num_stages > 1, plan_.choice.chunks_per_stage);
    set_choice(in, *m, plan_.choice);
    return in;
  }

 private:
  /// nullptr: on nodes of several types, or unknown ones.
  const Machine* machine_of_plan() const {
    const Machine* m = nullptr;
    for (const Machine& other : machines_)
      if (!plan_.ranks.empty() && other.node.name == plan_.ranks.front().node) m = &other;
    for (const PlannedRank& r : plan_.ranks)
      if (m && r.node != m->node.name) return nullptr;
    return m;
  }

  // --- the plan itself --------------------------------------------------------------------------------------------
  std::string why_not() {
    const OuterChoice& c = plan_.choice;
    if (plan_.hardware != cluster_.name)
      return fmt::format("it is for '{}', not for '{}'", make_printable(plan_.hardware), cluster_.name);
    if (last_name(plan_.model) != last_name(request_.model))
      return fmt::format("it is of the model '{}', not of '{}'", make_printable(plan_.model), request_.model);
    if (plan_.job.lengths != request_.job.lengths) return "it is for sequences of other lengths, or batched otherwise";
    if (std::string other = job_difference(plan_.job, request_.job); !other.empty()) return other;
    if (plan_.parameters != num_parameters(spec_))
      return fmt::format("it is of a model of {} parameters, this one has {}", plan_.parameters, num_parameters(spec_));
    if (std::string against = contradiction(); !against.empty()) return against;
    if (static_cast<int>(plan_.ranks.size()) != c.num_stages)
      return fmt::format("it names {} ranks for {} stages", plan_.ranks.size(), c.num_stages);
    const Machine* m = machine_of_plan();
    if (!m) {
      for (const PlannedRank& r : plan_.ranks)
        if (std::none_of(machines_.begin(), machines_.end(), [&](const Machine& x) { return x.node.name == r.node; }))
          return "it names a node that the cluster does not have";
      out_.verdict = Verdict::not_judged;
      return "its stages lie on nodes of several types, and such plans are not judged";
    }
    if (plan_.node != m->node.name)
      return fmt::format("it is on '{}', its ranks are on '{}'", make_printable(plan_.node), m->node.name);
    if (std::string outside = outside_space(*m, c); !outside.empty()) return outside;
    if (std::string rule = why_illegal(spec_, plan_.job, *m, c.mesh, c.micro_batch); !rule.empty()) return rule;
    if (std::string rule = why_illegal_pipeline(*m, c, static_cast<int>(layers_.size())); !rule.empty()) return rule;
    if (c.num_micro * c.micro_batch * c.mesh.data != plan_.job.batch)
      return fmt::format("{} × {} sequences on {} data ranks are no batch of {}", c.num_micro, c.micro_batch,
                         c.mesh.data, plan_.job.batch);
    std::vector<int> stage;
    std::vector<LayerStrategy> strategy;
    for (const PlannedLayers& l : plan_.layers) {
      if (l.first != static_cast<int>(stage.size()) || l.count < 1 || l.count > static_cast<int>(layers_.size()))
        return "its layers leave holes or overlap";
      if (const auto f = request_.space.pinned.framework; f && !why_not_run(*f, c, l.strategy).empty())
        return why_not_run(*f, c, l.strategy);
      if (!may(*m, l.strategy, c.chunks_per_stage)) return fmt::format("{}: not in the space", to_string(l.strategy));
      stage.insert(stage.end(), static_cast<size_t>(l.count), l.stage);
      strategy.insert(strategy.end(), static_cast<size_t>(l.count), l.strategy);
    }
    if (stage.size() != layers_.size()) return "it does not place every layer";
    for (size_t u = 0; u < stage.size(); ++u)
      if (const int step = u == 0 ? stage[0] : stage[u] - stage[u - 1]; step < 0 || step > (u == 0 ? 0 : 1))
        return "its stages do not follow one another";
    if (stage.back() + 1 != c.num_stages * c.chunks_per_stage) return "it leaves stages without layers";
    if (request_.space.pinned.even && !is_even(stage, strategy))
      return "its layers do not lie evenly under one strategy, as the space that is asked wants";
    return priced_otherwise(*m, stage, strategy);
  }

  // Of a model's path only the end: a plan may be judged from another folder.
  static std::string last_name(const std::string& model) {
    return file_name(std::string_view(model).substr(0, model.find_last_not_of('/') + 1));
  }

  // Figures of the plan that cannot stand beside each other.
  std::string contradiction() const {
    const ChoiceCounts& n = plan_.counts;
    if (plan_.bound_ps > plan_.step_ps) return "its bound is above its own time";
    if (plan_.model_ps > plan_.step_ps || plan_.model_bound_ps > plan_.step_ps)
      return "its bound model takes longer than the plan";
    if (n.by_bound > n.legal || n.by_search > n.legal || n.open > n.legal ||
        n.by_bound + n.by_search + n.open != n.legal)
      return fmt::format("its counts of choices do not add up to {}", n.legal);
    if (n.open > 0 && plan_.bound_ps == plan_.step_ps) return "choices are open, and it claims no gap";
    for (const PlannedFamily& f : plan_.families) {
      const bool faster =
          machines_.size() == 1 && ((f.fits && f.bound_ps < plan_.bound_ps) || (f.found && f.step_ps < plan_.step_ps));
      if (f.found != !f.choice.empty() || (f.found && (!f.fits || f.bound_ps > f.step_ps)) ||
          (!f.found && f.step_ps != 0) || (!f.fits && f.bound_ps != 0) || faster)
        return fmt::format("what it says of the rivals with {} contradicts itself", make_printable(f.feature));
    }
    return "";
  }

  /// "" for what over_meshes visits, if it is legal.
  std::string outside_space(const Machine& m, const OuterChoice& c) const {
    const SearchSpace& space = request_.space;
    const Mesh& x = c.mesh;
    const int64_t experts = std::max<int64_t>(1, experts_of(spec_));
    const auto above = [](std::string_view what, int64_t value, int64_t most) {
      return value > most ? fmt::format("{} {}: the space that is asked ends at {}", what, value, most) : "";
    };
    for (std::string why :
         {above("tensor", x.tensor, space.max_tensor), above("context", x.context, space.max_context),
          above("expert", x.expert, std::min(space.max_expert, experts)),
          above("expert-tensor", x.expert_tensor, experts > 1 ? x.tensor : 1),
          above("micro-batch", c.micro_batch, space.max_micro_batch), above("stages", c.num_stages, space.max_stages)})
      if (!why.empty()) return why;
    if (x.ulysses && (x.context == 1 || !space.ulysses)) return "context by ulysses: not in the space that is asked";
    const bool many = c.num_stages > 1;
    const int least = many ? least_chunks(c.schedule) : 1;
    if (c.chunks_per_stage < least || c.chunks_per_stage > (many ? most_chunks(c.schedule, space.max_chunks) : least))
      return fmt::format("{} chunks: not in the space that is asked", c.chunks_per_stage);
    if (c.num_stages == 1 ? c.schedule != kOneStageSchedule : !contains(space.schedules, c.schedule))
      return fmt::format("{}: not in the space that is asked", name_of(c.schedule));
    if (std::string why = why_not_pinned(space.pinned, request_.job, c, layers_, spec_, m.node.num_devices);
        !why.empty())
      return why;
    if (operations_of(c) > kMostOperations)
      return fmt::format("{} stages × {} chunks × {} micro-batches: more than {} operations are not simulated",
                         c.num_stages, c.chunks_per_stage, c.num_micro, kMostOperations);
    return "";
  }

  // Equal numbers of blocks on every virtual stage; ends belong to the first and the last.
  bool is_even(const std::vector<int>& stage, const std::vector<LayerStrategy>& strategy) const {
    std::vector<int> blocks(static_cast<size_t>(stage.back()) + 1, 0);
    bool even = true;
    for (size_t u = 0; u < stage.size(); ++u) {
      const bool block = spec_.units[static_cast<size_t>(layers_[u].first)].layer >= 0;
      even &= strategy[u] == strategy[0];
      if (block) ++blocks[static_cast<size_t>(stage[u])];
    }
    return even && std::all_of(blocks.begin(), blocks.end(), [&](int n) { return n == blocks[0]; });
  }

  bool may(const Machine& m, const LayerStrategy& s, int chunks) const {
    const SearchSpace& space = request_.space;
    if (chunks > 1 && (s.states != Tier::device || s.activations != Tier::device)) return false;
    return contains(space.zero, s.zero) && contains(space.recompute, s.recompute) && contains(space.states, s.states) &&
           contains(space.activations, s.activations) && why_illegal(m, s).empty();
  }

  // What the layers add up to, by virtual stage and by rank.
  struct StageSums {
    PipelineTimes times;
    std::vector<TierBytes> held, persistent;      // (virtual stages), (ranks)
    std::vector<int64_t> held_weight, transient;  // (virtual stages)
  };

  StageSums sums_of(const Machine& m, const PipelineShape& shape, const std::vector<int>& stage,
                    const std::vector<LayerStrategy>& strategy) const {
    const OuterChoice& c = plan_.choice;
    const LayerCosts costs = costs_of(spec_, request_, m, c.mesh, c.micro_batch, machines_.size());
    const auto stages = static_cast<size_t>(shape.num_virtual_stages()), ranks = static_cast<size_t>(c.num_stages);
    const bool split = splits_backward(c.schedule);
    StageSums sums{{},
                   std::vector<TierBytes>(stages),
                   std::vector<TierBytes>(ranks),
                   std::vector<int64_t>(stages, 0),
                   std::vector<int64_t>(stages, 0)};
    PipelineTimes& t = sums.times;
    for (auto* x : {&t.forward, &t.backward, &t.weight}) x->assign(stages, 0);
    for (auto* x : {&t.send_forward, &t.send_backward}) x->assign(stages - 1, 0);
    for (auto* x : {&t.begin, &t.tail}) x->assign(ranks, 0);
    std::vector<int64_t> host_forward(stages, 0), host_backward(stages, 0), backlog(ranks, 0), update(ranks, 0);
    for (size_t u = stage.size(); u-- > 0;) {
      const auto s = static_cast<size_t>(stage[u]), r = static_cast<size_t>(device_of(shape, stage[u]));
      const CostVector x = costs.cost(layers_[u], strategy[u], c.num_stages > 1);
      const bool first = u == 0 || stage[u - 1] != stage[u], last = u + 1 == stage.size() || stage[u + 1] != stage[u];
      t.forward[s] += x.forward + (first ? x.entry_forward : 0);
      t.backward[s] += x.recompute + x.backward + (last ? x.entry_backward : 0);
      t.weight[s] += x.weight;
      host_forward[s] += x.host_forward, host_backward[s] += x.host_backward;
      t.begin[r] += x.begin;
      const int64_t gradient = split ? x.weight : x.recompute + x.backward + x.weight;
      backlog[r] = std::max<int64_t>(0, backlog[r] - gradient) + x.sync;
      update[r] += x.update;
      for (size_t tier = 0; tier < kTiers; ++tier)
        sums.persistent[r][tier] += x.persistent[tier], sums.held[s][tier] += x.held[tier];
      if (split) sums.held_weight[s] += x.held_weight;
      sums.transient[s] = std::max(sums.transient[s], x.transient);
      if (last && u + 1 < stage.size()) {
        const EdgeCost e = costs.edge(layers_[u], near(m, c, stage[u]));
        t.send_forward[s] = e.forward, t.send_backward[s] = e.backward;
      }
    }
    for (size_t s = 0; s < stages; ++s) {
      t.forward[s] = std::max(t.forward[s], host_forward[s]);
      t.backward[s] = std::max(t.backward[s], host_backward[s] - (split ? 0 : t.weight[s]));
    }
    for (size_t r = 0; r < ranks; ++r) t.tail[r] = backlog[r] + update[r];
    return sums;
  }

  std::string priced_otherwise(const Machine& m, const std::vector<int>& stage,
                               const std::vector<LayerStrategy>& strategy) const {
    const OuterChoice& c = plan_.choice;
    const PipelineShape shape{c.schedule, c.num_stages, c.chunks_per_stage, static_cast<int>(c.num_micro)};
    const StageSums sums = sums_of(m, shape, stage, strategy);
    const PipelineTimes& t = sums.times;
    const PipelineOrder order = pipeline_order(shape, t);
    const PipelineRun run = run_pipeline(shape, order, t);
    if (run.makespan != plan_.step_ps) return fmt::format("its step takes {} ps, not {}", run.makespan, plan_.step_ps);
    if (std::string why = holds_otherwise(m, shape, order, sums); !why.empty()) return why;
    for (size_t r = 0; r < plan_.ranks.size(); ++r)
      for (const auto& [what, is, said] :
           {std::tuple<std::string_view, int64_t, int64_t>{"is busy for", run.busy[r], plan_.ranks[r].busy_ps},
            {"begins with", t.begin[r], plan_.ranks[r].begin_ps},
            {"ends with", t.tail[r], plan_.ranks[r].tail_ps}})
        if (is != said) return fmt::format("rank {} {} {} ps, not {}", r, what, is, said);
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const bool last = s + 1 == t.forward.size();
      const PlannedStage is{t.forward[s], t.backward[s], t.weight[s], last ? 0 : t.send_forward[s],
                            last ? 0 : t.send_backward[s]};
      if (plan_.stages[s] != is) return fmt::format("stage {} takes other times than it says", s);
    }
    if (std::string why = lowered_otherwise(); !why.empty()) return why;
    return summed_otherwise(m);
  }

  std::string holds_otherwise(const Machine& m, const PipelineShape& shape, const PipelineOrder& order,
                              const StageSums& sums) const {
    const TierBytes room{m.device_capacity(), m.host_capacity(), m.disk_capacity()};
    const std::vector<int64_t> none(sums.held.size(), 0);
    for (size_t tier = 0; tier < kTiers; ++tier) {
      std::vector<int64_t> of;
      for (const TierBytes& b : sums.held) of.push_back(b[tier]);
      const auto most =
          pipeline_peaks(shape, order, of, tier == 0 ? sums.held_weight : none, tier == 0 ? sums.transient : none);
      for (size_t r = 0; r < sums.persistent.size(); ++r) {
        const int64_t peak = sums.persistent[r][tier] + most[r];
        const PlannedRank& said = plan_.ranks[r];
        if (peak != said.peak[tier] || room[tier] != said.capacity[tier])
          return fmt::format("rank {} takes {} of {} bytes of {} memory, not {} of {}", r, peak, room[tier],
                             name_of(static_cast<Tier>(tier)), said.peak[tier], said.capacity[tier]);
        if (peak > room[tier])
          return fmt::format("rank {} does not fit: {} of {} bytes of {} memory", r, peak, room[tier],
                             name_of(static_cast<Tier>(tier)));
      }
    }
    return "";
  }

  // The Program of the plan. Its checksum rests on the planning machine's kernels too, and is not judged.
  std::string lowered_otherwise() const {
    if (!plan_.program) return "";
    Plan asked = plan_;
    asked.job = request_.job;  // with the distribution of its lengths
    const auto is = program_of_plan(spec_, cluster_, asked);
    if (!is) return "it says what its Program takes, and none is made of it";
    if (is->step_ps != plan_.program->step_ps || is->instructions != plan_.program->instructions)
      return fmt::format("its Program takes {} ps and {} instructions, not {} and {}", is->step_ps, is->instructions,
                         plan_.program->step_ps, plan_.program->instructions);
    return "";
  }

  // What is worked out from the choice and the step.
  std::string summed_otherwise(const Machine& m) const {
    const int64_t used = plan_.choice.devices(), idle = cluster_.num_devices() - used;
    if (plan_.idle_devices != idle) return fmt::format("{} devices are idle, not {}", idle, plan_.idle_devices);
    const auto same = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); };
    const double price = m.price_per_hour(used);
    if (!same(plan_.price_per_hour, price))
      return fmt::format("its devices cost {} per hour, not {}", price, plan_.price_per_hour);
    const double peak = static_cast<double>(used) * peak_flops(m.device, plan_.job.dtype);
    const double tokens_per_second =
        plan_.step_ps > 0 ? step_tokens(request_.job) / (static_cast<double>(plan_.step_ps) * 1e-12) : 0;
    const double share = training_flops_per_token(spec_, request_.job) * tokens_per_second / peak;
    if (!same(plan_.flops_share, share))
      return fmt::format("the model's own work is {} of the devices' peak, not {}", share, plan_.flops_share);
    return "";
  }

  // --- every other choice -----------------------------------------------------------------------------------------
  void over_meshes(const Machine& m) {
    const SearchSpace& space = request_.space;
    const int64_t devices = m.num_devices(), experts = std::max<int64_t>(1, experts_of(spec_));
    Mesh x;
    for (x.tensor = 1; x.tensor <= std::min(space.max_tensor, devices); ++x.tensor)
      for (x.context = 1; x.context <= std::min(space.max_context, devices / x.tensor); ++x.context)
        for (const bool ulysses : {false, true}) {
          x.ulysses = ulysses, x.data = x.expert = x.expert_tensor = 1;
          if (ulysses && (x.context == 1 || !space.ulysses)) continue;
          if (!why_illegal(spec_, request_.job, m, x, 1).empty()) continue;
          for (x.data = 1; x.data <= std::min(request_.job.batch, devices / (x.tensor * x.context)); ++x.data)
            for (int64_t b = 1; b <= space.max_micro_batch; ++b) {
              if (request_.job.batch % (x.data * b) != 0) continue;
              for (x.expert = 1; x.expert <= std::min(space.max_expert, experts); ++x.expert)
                for (x.expert_tensor = 1; x.expert_tensor <= (experts > 1 ? x.tensor : 1); ++x.expert_tensor)
                  if (why_illegal(spec_, request_.job, m, x, b).empty()) over_pipelines(m, x, b);
              x.expert = x.expert_tensor = 1;
            }
        }
  }

  void over_pipelines(const Machine& m, const Mesh& mesh, int64_t b) {
    if (!may_be_pinned(request_.space.pinned, mesh, b)) return;
    const int most = static_cast<int>(std::min<int64_t>(
        {usable_devices(m, mesh) / mesh.devices(), static_cast<int64_t>(layers_.size()), request_.space.max_stages}));
    if (most < 1) return;
    const LayerCosts costs = costs_of(spec_, request_, m, mesh, b, machines_.size());
    Instance whole, staged, chunked;
    LongestTimes longest[3];
    for (int P = 1; P <= most; ++P)
      for (const PipelineSchedule schedule : request_.space.schedules) {
        if (P == 1 && schedule != request_.space.schedules.front()) continue;  // one stage: they are all the same
        const int first = P > 1 ? least_chunks(schedule) : 1;
        const int last = P > 1 ? most_chunks(schedule, request_.space.max_chunks) : 1;
        for (int v = first; v <= last; ++v) {
          const OuterChoice c{
              mesh, P, v, P == 1 ? kOneStageSchedule : schedule, b, request_.job.batch / (mesh.data * b)};
          if (!why_illegal_pipeline(m, c, static_cast<int>(layers_.size())).empty()) continue;
          if (!outside_space(m, c).empty()) continue;
          Instance& in = P == 1 ? whole : v == 1 ? staged : chunked;
          LongestTimes& times = longest[P == 1 ? 0 : v == 1 ? 1 : 2];
          if (in.cost.empty()) {
            fill(in, m, costs, P > 1, v);
            times = longest_times(costs, layers_, strategies_of(m, v), P > 1);
          }
          // Bounded and not planned, as those of too many operations are (docs/planner.md): not among what is judged.
          if (in.cost.front().empty() || !times.counted(c.num_micro)) continue;
          judge(in, m, c);
        }
      }
  }

  std::vector<LayerStrategy> strategies_of(const Machine& m, int chunks) const {
    const SearchSpace& space = request_.space;
    std::vector<LayerStrategy> all;
    for (const int zero : space.zero)
      for (const Recompute r : space.recompute)
        for (const Tier states : space.states)
          for (const Tier activations : space.activations)
            if (const LayerStrategy s{zero, r, states, activations}; may(m, s, chunks)) all.push_back(s);
    return all;
  }

  void fill(Instance& in, const Machine& m, const LayerCosts& costs, bool pipelined, int chunks) const {
    const std::vector<LayerStrategy> all = strategies_of(m, chunks);
    std::map<int, std::vector<CostVector>> rows;
    for (const Layer& layer : layers_) {
      auto& of = rows[layer.kind];
      if (of.empty())
        for (const LayerStrategy& s : all) of.push_back(costs.cost(layer, s, pipelined));
      in.cost.push_back(of);
      in.layer_class.push_back(layer.kind);
    }
    in.within.assign(layers_.size() - 1, std::vector<EdgeCost>(all.size() * all.size()));
    in.across = in.within;
    in.other_across.assign(1, in.within);
    for (size_t u = 0; u + 1 < layers_.size(); ++u)
      for (size_t i = 0; i < all.size() * all.size(); ++i) {
        in.across[u][i] = costs.edge(layers_[u], false);
        in.other_across[0][u][i] = costs.edge(layers_[u], true);
      }
  }

  static void set_choice(Instance& in, const Machine& m, const OuterChoice& c) {
    in.num_stages = c.num_stages, in.chunks_per_stage = c.chunks_per_stage;
    in.num_micro = static_cast<int>(c.num_micro), in.schedule = c.schedule;
    in.capacity.assign(static_cast<size_t>(c.num_stages), {m.device_capacity(), m.host_capacity(), m.disk_capacity()});
    in.link_class.clear();
    for (int s = 0; s + 1 < c.num_stages * c.chunks_per_stage; ++s) in.link_class.push_back(near(m, c, s));
  }

  void judge(Instance& in, const Machine& m, const OuterChoice& c) {
    ++out_.choices;
    set_choice(in, m, c);
    out_.late = out_.late ||
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() >= request_.seconds ||
                (request_.stop && *request_.stop);
    const AuditedBound bound = out_.late ? audit_work_bound(in, plan_.bound_ps) : audit_bound(in, plan_.bound_ps);
    ++out_.by[static_cast<size_t>(bound.by)];
    if (bound.by == AuditedBy::open) out_.proven_ps = std::min(out_.proven_ps, bound.bound);
  }

  const ModelSpec& spec_;
  const Cluster& cluster_;
  const PlanRequest& request_;
  const Plan& plan_;
  const std::vector<Layer> layers_;
  const std::vector<Machine> machines_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  PlanAudit out_;
};

}  // namespace

std::string_view name_of(Verdict v) {
  constexpr std::array<std::string_view, 5> names{"accepted", "in part", "unproven", "not judged", "rejected"};
  return names[static_cast<size_t>(v)];
}

std::span<const std::string_view> unjudged_keys() {
  static constexpr std::array<std::string_view, 8> keys{"predicted.binds",
                                                        "predicted.error",
                                                        "predicted.program.checksum",
                                                        "proof.model_ps",
                                                        "proof.model_bound_ps",
                                                        "proof.restrictions",
                                                        "proof.families",
                                                        "report"};
  return keys;
}

Instance instance_of(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request, const Plan& plan) {
  return PlanJudge(spec, cluster, request, plan).instance();
}

PlanAudit audit_plan(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request, const Plan& plan) {
  const auto start = std::chrono::steady_clock::now();
  PlanAudit out = PlanJudge(spec, cluster, request, plan).run();
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace tern
