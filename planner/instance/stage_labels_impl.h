#pragma once
// Labels of one stage: what layers [u, e) can cost as the end of a stage, with layer u in one state and layer e − 1 in
// another. Labels grow from the last layer to the first, as the gradient link's backlog does. A label is a short row of
// integers where smaller is better. For each layer and state the Pareto front of labels is kept.

#include <cstdint>
#include <vector>

#include "planner/instance/bound_model_impl.h"
#include "planner/instance/budget_impl.h"
#include "planner/instance/stage_cuts_impl.h"

namespace tern {

/// How a label was made. index, state: of the label that it extends (index −1: none); option: of the layer that it adds.
struct LabelParent {
  int32_t index = -1;
  int16_t state = 0, option = 0;
};

/// A Pareto front of labels.
struct Front {
  std::vector<int64_t> x;  // (labels · dims)
  std::vector<LabelParent> parent;
  int size() const { return static_cast<int>(parent.size()); }
};

/// All labels of stages that end before layer `end`, in state `exit`.
struct StageRun {
  int end = 0, exit = 0;
  std::vector<std::vector<Front>> front;  // (length)(states of layer end − 1 − j)
  int64_t labels = 0;                     // labels kept; comparisons count as fractions of a label
  bool too_many = false;
  int64_t bytes() const;  // of the fronts
};

/// Makes the labels of one stage.
class StageLabels {
 public:
  enum class Keep { least, least_work_and_rest, least_done, bound, times, all };
  /// Keep  what labels carry. least, least_work_and_rest, least_done: only what finds the least of p, of p + q, or of
  ///       c·p + tail; the label has this number in the place of p. bound: a lower bound of every number that the chain's
  ///       bound model needs; for times that hardly matter to the model, the least time of any strategy. times:
  ///       all that the makespan depends on. all: as times, but no label is dropped because another is better.
  StageLabels(const Chain&, int stage, Keep);

  /// Makes the labels of up to `length` layers before `end`; exit −1: any state. Stops early (too_many) above `most`
  /// labels or the budget's bytes, or when the budget's time is over.
  StageRun run(int end, int exit, int length, const Cuts&, int64_t most, const Budget&) const;
  /// What the stage costs if it begins at the label's layer.
  StageCost cost(const StageRun&, int j, int state, int index) const;
  /// The strategies of layers [end − 1 − j, end).
  std::vector<int> strategies(const StageRun&, int j, int state, int index) const;
  /// Whether a stage of cost a can replace one of cost b.
  bool no_worse(const StageCost& a, const StageCost& b) const;

 private:
  struct Growth;
  struct Row;
  int64_t filter(std::vector<int64_t>& x, std::vector<LabelParent>& parent, Front&) const;
  void filter_two(const std::vector<int>& order, const std::vector<int64_t>& x, std::vector<int>& kept) const;
  void filter_three(const std::vector<int>& order, const std::vector<int64_t>& x, std::vector<int>& kept) const;
  int64_t filter_many(const std::vector<int>& order, const std::vector<int64_t>& x, std::vector<int>& kept) const;
  const int64_t* add(int u, int state, int option) const;
  /// The most by which resharding from layer u into `state` of layer u + 1 costs more than into another state of it (the index in spread_).
  struct Spread {
    int64_t forward = -kNever, backward = -kNever;
    int state = 0;
  };
  void choose_places();  // chooses the places of a row's numbers
  void sum_least();
  void fill_adds();
  std::vector<int64_t> added_row(const OptionCost&) const;
  void fill_spreads();
  /// Marks labels of layer u + 1 that need no extension, because another state's label is no worse whatever is added before it.
  void mark_idle(int u, const std::vector<Front>& fronts, std::vector<std::vector<char>>& idle) const;

  const Chain& chain_;
  const StageRule& rule_;
  Keep keep_;
  bool reduced_ = false;          // rows carry p and q instead of forward and backward
  int64_t alpha_ = 0, beta_ = 0;  // q = alpha·f + beta·b
  int64_t first_forward_ = 1, first_backward_ = 1, first_weight_ = 1;  // weights of the first number of a reduced row
  // Places in a row; −1: not carried. Sums come first, then transient_ and the one of sync_ and drain_ that is carried.
  int dims_ = 0, sums_ = 0;
  int forward_ = -1, backward_ = -1, weight_ = -1, host_forward_ = -1, host_backward_ = -1, update_ = -1, begin_ = -1;
  int bytes_[kTiers] = {-1, -1, -1};
  int transient_ = -1, sync_ = -1, drain_ = -1;
  std::vector<int64_t> least_forward_, least_update_, least_begin_;  // prefix sums over layers
  // What a layer adds to a row: its sums, then transient, sync and the time of its last gradient operation.
  int stride_ = 0;
  std::vector<std::vector<size_t>> offset_;  // (layers)(states): into adds_
  std::vector<int64_t> adds_;
  // By form of layer u and state of u + 1: the few smallest spreads; empty where they are not used.
  std::vector<std::vector<std::vector<Spread>>> spread_;
};

}  // namespace tern
