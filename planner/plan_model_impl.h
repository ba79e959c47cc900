#pragma once
// Between the files of plan_model: tables of one mesh and micro-batch, and the choices that use them.

#include <memory>
#include <utility>
#include <vector>

#include "plan/cost_model.h"
#include "planner/plan_model.h"

namespace tern {

/// Cost rows of one (node group, mesh, micro-batch): per kind of layer the strategies that are not dominated.
struct ChoiceTables {
  int group = 0;
  Mesh mesh;
  int64_t micro_batch = 1;
  struct Rows {
    int layers = 0;                          // of this kind
    std::vector<CostVector> cost[3];         // by form
    std::vector<LayerStrategy> strategy[3];  // of each
  };
  std::vector<Rows> kinds;
  std::vector<EdgeCost> edge[2];  // per kind, to the next stage: [0] in another node, [1] in the same
  // By form: sums over the layers of the least of each; bytes: persistent ones of all tiers.
  int64_t compute[3]{}, forward[3]{}, gradient[3]{};
  int64_t least_bytes[3]{}, least_device[3]{};  // persistent and one micro-batch's: of all tiers, of the device
  int64_t least_edge[2]{};                      // both ways; [inside]
};

/// How the layers of a choice are cut: not at all, one stage per rank, several.
enum Form : int { kWhole, kStaged, kChunked };

struct Candidate {
  int64_t bound = 0;   // ps
  int32_t tables = 0;  // index
  int32_t num_stages = 1, chunks = 1, schedule = 1;
  int64_t num_micro = 1;
};

inline int form_of(const Candidate& c) { return c.num_stages == 1 ? kWhole : c.chunks == 1 ? kStaged : kChunked; }

struct SpaceOfChoices {
  const ModelSpec* spec = nullptr;
  TrainJob job;
  std::vector<Machine> machines;  // one per type of node
  std::vector<Layer> layers;
  std::vector<ChoiceTables> tables;
  std::vector<Candidate> candidates;                   // legal, in the order of enumeration
  int64_t no_room = 0;                                 // of them, that cannot hold the least bytes: not in candidates
  std::vector<std::pair<int64_t, Candidate>> nearest;  // of those, the few that lack least, with how much per device
  std::vector<std::string> rules;  // some of those that were broken, for the message when nothing is legal
};

SpaceOfChoices enumerate_choices(const ModelSpec&, const Cluster&, const PlanRequest&);
OuterChoice choice_of(const SpaceOfChoices&, const Candidate&);
const Machine& machine_of_tables(const SpaceOfChoices&, const ChoiceTables&);

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
/// Every layer as fast as it can be; where a device lacks bytes, its layers one after the other take smaller
/// strategies. Layers evenly by time, and chunk by chunk in equal numbers. Nothing: none fits below `upper_bound`.
UniformPlan repaired_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&, int64_t upper_bound);
inline int64_t gradient_ps(const CostVector& c) { return c.recompute + c.backward + c.weight; }

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
  int64_t searches = 0, simulated = 0, restricted_open = 0;
  double seconds = 0;
};
Plan make_plan(const SpaceOfChoices&, const Cluster&, const PlanRequest&, const OuterOutcome&);
NoFit make_no_fit(const SpaceOfChoices&, const OuterOutcome&);

/// A strategy of each layer, by index into the tables' rows.
std::vector<PlannedLayers> planned_layers(const SpaceOfChoices&, const Candidate&, const Assignment&);

}  // namespace tern
