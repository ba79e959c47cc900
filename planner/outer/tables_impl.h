#pragma once
// Cost tables of one mesh and micro-batch: the rows that every choice with that mesh shares.

#include <array>
#include <cstdint>
#include <vector>

#include "plan/cost_model.h"
#include "planner/outer/plan_model.h"

namespace tern {

/// In place of a machine's index: stages lie on devices of several types.
inline constexpr int kMixed = -1;

/// How a choice divides the layers. kWhole: one stage. kStaged: one stage per device. kTimed: as kStaged, with an order of
/// operations that follows the times. kChunked: several virtual stages per device.
enum Form : int { kWhole, kStaged, kTimed, kChunked };
inline constexpr std::array<Form, 4> kForms{kWhole, kStaged, kTimed, kChunked};

/// Cost rows of one type of node, mesh and micro-batch: for each kind of layer the strategies that no other strategy dominates.
/// Mixed: the rows of every type of node that can hold the mesh, side by side.
struct ChoiceTables {
  int group = 0;  // index of SpaceOfChoices::machines, or kMixed
  Mesh mesh;
  int64_t micro_batch = 1;
  struct Rows {
    int layers = 0;                                      // of this kind
    std::vector<CostVector> cost[kForms.size()];         // by form
    std::vector<LayerStrategy> strategy[kForms.size()];  // of each row of `cost`
    std::vector<int> machine[kForms.size()];             // of each row of `cost`, if mixed
  };
  std::vector<Rows> kinds;
  std::vector<EdgeCost> edge[2];  // per kind, to the next stage: [0] in another node, [1] in the same
  // Mixed: per kind, from machine a to machine b at [a · machines + b]; within a node of machine a at [a].
  std::vector<std::vector<EdgeCost>> between, inside;
  std::vector<int64_t> boundary_bytes;  // per kind, of one micro-batch
  // By form: sums over the layers of the least value that any strategy has, ps.
  int64_t compute[kForms.size()]{}, forward[kForms.size()]{}, gradient[kForms.size()]{};
  // The same sums for bytes (persistent + held): least_bytes over all tiers, least_device on the device.
  int64_t least_bytes[kForms.size()]{}, least_device[kForms.size()]{};
  LongestTimes longest[kForms.size()];
  int64_t least_edge[2]{};  // least forward + backward over the kinds; [0] and [1] as in `edge`
};

/// Makes the rows of machine `group` of `machines`. The sums over the layers are left to sum_up.
ChoiceTables make_tables(const ModelSpec&, const TrainJob&, const SearchSpace&, const std::vector<Layer>&,
                         const std::vector<Machine>& machines, int group, const Mesh&, int64_t micro_batch);
/// Fills in the number of layers of each kind and the sums over the layers.
void sum_up(ChoiceTables&, const std::vector<Layer>&);
/// Puts tables of several machines side by side; nullptr: the machine at this place cannot hold the mesh.
ChoiceTables join_tables(const Cluster&, const std::vector<Machine>&, const std::vector<const ChoiceTables*>&);

/// A layer's backward of one micro-batch, ps, recomputation and weight gradient included.
inline int64_t gradient_ps(const CostVector& c) { return c.recompute + c.backward + c.weight; }

}  // namespace tern
