#pragma once
// The outer choices that the search looks at, and the tables that they use.

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "plan/layers.h"
#include "planner/outer/tables_impl.h"

namespace tern {

/// An outer choice, in few bytes.
struct Candidate {
  int64_t bound = 0;   // ps
  int32_t tables = 0;  // index in SpaceOfChoices::tables
  int32_t num_stages = 1, chunks = 1, schedule = 1;
  int32_t order = -1;  // mixed: index in SpaceOfChoices::orders
  int64_t num_micro = 1;
};

/// How the candidate cuts the layers.
inline Form form_of(const Candidate& c) {
  if (c.num_stages == 1) return kWhole;
  if (c.chunks > 1) return kChunked;
  return order_follows_times(static_cast<PipelineSchedule>(c.schedule)) ? kTimed : kStaged;
}

/// All outer choices of a question.
struct SpaceOfChoices {
  const ModelSpec* spec = nullptr;
  TrainJob job;
  PinnedAxes pinned;
  std::vector<Machine> machines;  // one per type of node
  std::vector<Layer> layers;
  std::vector<ChoiceTables> tables;
  std::vector<Candidate> candidates;     // legal and with room, in the order of enumeration
  std::vector<Candidate> bounded;        // with room, counted in too_many or too_long: bounded, never planned
  int64_t too_many = 0, too_long = 0;    // choices of more than kMostOperations operations; others of too long steps
  std::vector<std::vector<int>> orders;  // of mixed pipelines: each stage's machine, or kAnyType
  int64_t work_bound = 0;                // ps: no choice, enumerated or not, takes less
  int64_t no_room = 0;                   // legal choices without room, outside of too_many and too_long
  std::vector<std::pair<int64_t, Candidate>> nearest;  // (bytes lacking per device, choice), few
  bool cut = false;                                    // time, work or stop ended the enumeration early
  int64_t work = 0;                                    // counted as PlanRequest::any_fit_within says
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  bool late() const {
    return deadline != std::chrono::steady_clock::time_point::max() && std::chrono::steady_clock::now() >= deadline;
  }
  std::vector<std::string> rules;  // some broken rules, for the message when no choice is legal
};

/// Lists the choices of a request, with their tables and a first bound each.
SpaceOfChoices enumerate_choices(const ModelSpec&, const Cluster&, const PlanRequest&);
/// choice_of: the choice as a plan has it. machine_of_stage: the machine on which a stage lies.
OuterChoice choice_of(const SpaceOfChoices&, const Candidate&);
const Machine& machine_of_stage(const SpaceOfChoices&, const Candidate&, int stage);
/// Whether this candidate represents all orders of stages that are not listed one by one. Such a candidate is never planned.
bool any_order(const SpaceOfChoices&, const Candidate&);
/// For each stage whether the next stage lies in the same node. Stages fill the nodes of a type one after another.
std::vector<bool> in_one_node(const SpaceOfChoices&, const Candidate&);
TierBytes most_capacity(const SpaceOfChoices&, const ChoiceTables&);  // per device, the largest of any machine
/// The ways to lay `stages` stages on two or more machines, at most room[m] stages on machine m. Returns all ways and
/// true. If there are more than `most` ways, returns false and ways in which the stages of each machine stand together:
/// as many stages as possible on one machine, then on a second, and so on.
std::pair<std::vector<std::vector<int>>, bool> orders_of(int stages, const std::vector<int64_t>& room, size_t most);
inline TierBytes capacity_of(const Machine& m) { return {m.device_capacity(), m.host_capacity(), m.disk_capacity()}; }

/// For a space without a legal choice: the rules and limits that the pinned axes break, alone or together, in words.
/// May be empty.
std::vector<std::string> broken_pins(const SpaceOfChoices&, const SearchSpace&);

}  // namespace tern
