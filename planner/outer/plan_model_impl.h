#pragma once
// Between the files of plan_model: tables of one mesh and micro-batch, and the choices that use them.

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "plan/cost_model.h"
#include "planner/outer/plan_model.h"

namespace tern {

struct Priced;  // price.h

/// In place of a machine: stages on devices of several types.
inline constexpr int kMixed = -1;

/// How the layers of a choice are cut: not at all; one stage per rank, its order fixed or following the times; several.
enum Form : int { kWhole, kStaged, kTimed, kChunked };
inline constexpr std::array<Form, 4> kForms{kWhole, kStaged, kTimed, kChunked};

/// Cost rows of one (type of node, mesh, micro-batch): per kind of layer the strategies that are not dominated. Mixed:
/// the rows of each type that can hold the mesh, side by side.
struct ChoiceTables {
  int group = 0;  // index of SpaceOfChoices::machines, or kMixed
  Mesh mesh;
  int64_t micro_batch = 1;
  struct Rows {
    int layers = 0;                                      // of this kind
    std::vector<CostVector> cost[kForms.size()];         // by form
    std::vector<LayerStrategy> strategy[kForms.size()];  // of each
    std::vector<int> machine[kForms.size()];             // of each, if mixed
  };
  std::vector<Rows> kinds;
  std::vector<EdgeCost> edge[2];  // per kind, to the next stage: [0] in another node, [1] in the same
  // Mixed: per kind, from machine a to machine b at [a · machines + b]; within a node of machine a at [a].
  std::vector<std::vector<EdgeCost>> between, inside;
  std::vector<int64_t> boundary_bytes;  // per kind, of one micro-batch
  // By form: sums over the layers of the least of each; bytes: persistent ones of all tiers.
  int64_t compute[kForms.size()]{}, forward[kForms.size()]{}, gradient[kForms.size()]{};
  // Persistent and one micro-batch's: of all tiers, of the device.
  int64_t least_bytes[kForms.size()]{}, least_device[kForms.size()]{};
  LongestTimes longest[kForms.size()];
  int64_t least_edge[2]{};  // both ways; [inside]
};

struct Candidate {
  int64_t bound = 0;   // ps
  int32_t tables = 0;  // index
  int32_t num_stages = 1, chunks = 1, schedule = 1;
  int32_t order = -1;  // mixed: index of SpaceOfChoices::orders
  int64_t num_micro = 1;
};

inline Form form_of(const Candidate& c) {
  if (c.num_stages == 1) return kWhole;
  if (c.chunks > 1) return kChunked;
  return order_follows_times(static_cast<PipelineSchedule>(c.schedule)) ? kTimed : kStaged;
}

struct SpaceOfChoices {
  const ModelSpec* spec = nullptr;
  TrainJob job;
  PinnedAxes pinned;
  std::vector<Machine> machines;  // one per type of node
  std::vector<Layer> layers;
  std::vector<ChoiceTables> tables;
  std::vector<Candidate> candidates;                   // legal, in the order of enumeration
  std::vector<Candidate> bounded;                      // legal, but not to be planned: their bounds alone count
  int64_t too_many = 0, too_long = 0;                  // of them and of no_room: operations; picoseconds
  std::vector<std::vector<int>> orders;                // of mixed pipelines: each stage's machine, or kAnyType
  int64_t work_bound = 0;                              // ps: of every choice, enumerated or not
  int64_t no_room = 0;                                 // of them, that cannot hold the least bytes: not in candidates
  std::vector<std::pair<int64_t, Candidate>> nearest;  // of those, the few that lack least, with how much per device
  bool cut = false;                                    // by time, work or stop, before all were enumerated
  int64_t work = 0;                                    // of PlanRequest::any_fit_within
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  bool late() const {
    return deadline != std::chrono::steady_clock::time_point::max() && std::chrono::steady_clock::now() >= deadline;
  }
  std::vector<std::string> rules;  // some of those that were broken, for the message when nothing is legal
};

SpaceOfChoices enumerate_choices(const ModelSpec&, const Cluster&, const PlanRequest&);
OuterChoice choice_of(const SpaceOfChoices&, const Candidate&);
const Machine& machine_of_stage(const SpaceOfChoices&, const Candidate&, int stage);
/// Mixed pipelines of every order of stages that is no candidate: a bound for all of them, not to be planned.
bool any_order(const SpaceOfChoices&, const Candidate&);
/// By stage whether it and the next lie in one node: stages fill the nodes of their type one after another.
std::vector<bool> in_one_node(const SpaceOfChoices&, const Candidate&);
TierBytes most_capacity(const SpaceOfChoices&, const ChoiceTables&);  // of any stage
/// Sequences of machines for P stages over several of them, at most room[m] on machine m: all, or if there are more
/// than `most`, those whose stages of one machine stand together, as many as may be on the first machines named. The
/// second: whether it is all.
std::pair<std::vector<std::vector<int>>, bool> orders_of(int stages, const std::vector<int64_t>& room, size_t most);
/// Tables of several machines side by side; nullptr: of a machine that cannot hold the mesh.
ChoiceTables join_tables(const Cluster&, const std::vector<Machine>&, const std::vector<const ChoiceTables*>&);
inline TierBytes capacity_of(const Machine& m) { return {m.device_capacity(), m.host_capacity(), m.disk_capacity()}; }

/// The Instance of a candidate; `previous` may hold another one's and is overwritten (same tables: cheaply).
struct BuiltInstance {
  Instance instance;
  int tables = -1, form = -1, inside = -1;
};
void build_instance(const SpaceOfChoices&, const Candidate&, BuiltInstance& previous);

/// Layers are whole: the least time in which the devices, each after its lead-in and with mu as the price of its bytes,
/// have places for all layers of a kind.
int64_t crowding_bound(const SpaceOfChoices&, const Candidate&, double mu);

/// Layers evenly over the virtual stages by time, one strategy everywhere, the fastest that fits. An upper bound that
/// costs a few simulations. Nothing: none fits.
struct UniformPlan {
  bool found = false;
  Assignment assignment;
  int64_t makespan = 0;
};
UniformPlan uniform_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&);
/// The first that fits, strategies of least bytes before others. `left`: of PlanRequest::any_fit_within; falls.
UniformPlan first_fit(const SpaceOfChoices&, const Candidate&, BuiltInstance&, int64_t& left);
/// The same over unlike devices: each stage takes layers until its time is up or its memory full.
UniformPlan mixed_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&);
/// Every layer as fast as it can be; where a device lacks bytes, its layers one after the other take smaller
/// strategies. Layers evenly by time, and chunk by chunk in equal numbers. Nothing: none fits below `upper_bound`.
UniformPlan repaired_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&, int64_t upper_bound);
/// Of a space with PinnedAxes::even: the best of its assignments, of which there is one to a strategy, and all of them
/// are priced. If none fits, the one that lacks least (max of int64:
/// its framework runs none).
struct EvenPlan {
  UniformPlan plan;
  int64_t missing_bytes = 0;  // if none fits
  Tier tier = Tier::device;
  int rank = 0;
};
EvenPlan even_plan(const SpaceOfChoices&, const Candidate&, const Instance&);
/// What is pinned and cannot be, in words: the rule or limit that each axis, or several together, break. For spaces in
/// which nothing is legal; may be empty.
std::vector<std::string> broken_pins(const SpaceOfChoices&, const SearchSpace&);

inline int64_t gradient_ps(const CostVector& c) { return c.recompute + c.backward + c.weight; }

/// Rows of machine `group` of `machines`; sums over layers are not made.
ChoiceTables make_tables(const ModelSpec&, const TrainJob&, const SearchSpace&, const std::vector<Layer>&,
                         const std::vector<Machine>& machines, int group, const Mesh&, int64_t micro_batch);
/// Counts the layers of each kind, and sums the least of each number over them.
void sum_up(ChoiceTables&, const std::vector<Layer>&);

/// The best pipelines of unlike shape side by side (pipeline_pool.h), of one tensor degree and micro-batch, ZeRO 0,
/// 1F1B; only what is below `upper_bound`.
struct PoolFamily {
  bool found = false;
  bool complete = true;  // no degree was left out, and it was not late
  std::string choice;
  int64_t makespan = 0, bound = 0;
  int64_t columns = 0, searched = 0;
};
PoolFamily best_pool(const SpaceOfChoices&, const Cluster&, const PlanRequest&, int64_t upper_bound,
                     const std::function<bool()>& late);

/// No plan is faster, whatever its choice: the model's products shared out over all devices at their peak. ps
int64_t work_bound(const ModelSpec&, const Cluster&, const TrainJob&);

/// What the outer loop leaves. Bounds: of every candidate; max of int64 if nothing of it fits.
struct OuterOutcome {
  bool found = false, interrupted = false;
  int best = -1;
  Assignment assignment;
  int64_t makespan = 0, model = 0, model_bound = 0, bound = 0;
  std::vector<int64_t> bounds;
  std::vector<std::pair<int, int64_t>> plans;  // candidate, makespan: all that were seen
  ChoiceCounts counts;
  int no_fit_index = -1;
  NoFit no_fit;
  int64_t searches = 0, simulated = 0, restricted_open = 0, work = 0;
  int64_t bounded_open = 0;  // of SpaceOfChoices::bounded, that could be faster
  int64_t not_run = 0;       // choices of which the framework runs no strategy
  int64_t orders_open = 0;   // families of orders of unlike stages that only their bound stands for
  double seconds = 0;
  PoolFamily pool;
};
/// Fills the answer's plan, shape and times. Where looking around the best plan finds a faster one, that is the plan.
void make_plan(const SpaceOfChoices&, const Cluster&, const PlanRequest&, OuterOutcome, PlanAnswer&);
/// "rtx3090 × 2, rtx4080m × 1": stages by type of node, in the order of the first of each.
std::string nodes_of(const SpaceOfChoices&, const Candidate&);
/// What a look around the best plan gives. families, of Plan: for each feature, the values that the plan has not, those
/// with the least bounds first, and the best plan of each that was seen; then the choices one step from the plan
/// (micro-batch halved or doubled, another schedule, a factor of two between two axes) that come within 5 % of its
/// step.
struct FasterPlan {
  int candidate = -1;  // none
  Assignment assignment;
  int64_t makespan = 0;
};
struct AroundPlan {
  std::vector<PlannedFamily> families;
  FasterPlan faster;  // than the plan: its search was cut short, or its effort spent
  bool late = false;  // plans were left out
};
/// Makes no more plans once nothing is `left`, in seconds, or it is told to stop.
AroundPlan look_around(const SpaceOfChoices&, const OuterOutcome&, const std::function<double()>& left,
                       const std::atomic<bool>* stop);
NoFit make_no_fit(const SpaceOfChoices&, const OuterOutcome&);
/// By rank and tier; their sums are `priced`'s peaks.
std::vector<PlannedMemoryByTier> memory_classes(const SpaceOfChoices&, const Candidate&, const Instance&,
                                                const Assignment&, const Priced&);

/// A strategy of each layer, by index into the tables' rows.
std::vector<PlannedLayers> planned_layers(const SpaceOfChoices&, const Candidate&, const Assignment&);

}  // namespace tern
