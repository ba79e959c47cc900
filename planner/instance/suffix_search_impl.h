#pragma once
// One round of the search: all partial pipelines, from the last stage to the first, whose bound can stay at or below a
// limit. Of those that begin at the same stage, layer and state it keeps the Pareto front. If the least bound of all
// assignments is at or below the limit, the round finds it.

#include <atomic>
#include <chrono>
#include <functional>
#include <vector>

#include "planner/instance/stage_labels_impl.h"
#include "planner/instance/windows_impl.h"

namespace tern {

/// How a search ended: it was done, the budget's time or flag stopped it, or a count was exceeded.
enum class SearchEnd : uint8_t { done, stopped, too_many };

/// A stage, and the best known stages after it.
struct SuffixLabel {
  Suffix value;
  StageCost cost;
  int32_t end = 0;
  int16_t exit = 0, next_entry = 0;  // states of layers end − 1 and end
  int32_t next = -1;                 // index among those at (stage + 1, end, next_entry)
};

/// What may follow a stage that ends before `end` in state `exit`.
struct Joined {
  LinkCost link;
  Suffix next;
  int16_t next_entry = 0;
  int32_t index = -1;
};

/// A stage that begins at a layer in a state: one label of a run (kept only if asked for).
struct StageElement {
  StageCost cost;
  int32_t end = 0;
  int16_t exit = 0;
  int32_t run = -1, depth = 0, index = 0;
};

/// What a round found.
struct Round {
  SearchEnd outcome = SearchEnd::done;
  int64_t labels = 0, suffixes = 0;
  int64_t bytes = 0;  // of what follows
  // (stages + 1)(layers + 1)(states)
  std::vector<std::vector<std::vector<std::vector<SuffixLabel>>>> suffix;
  // For the enumeration. element (stages)(layers)(states): the stages that begin there; joined (stages)(layers +
  // 1)(states): what may follow a stage that ends there.
  std::vector<std::vector<std::vector<std::vector<StageElement>>>> element;
  std::vector<std::vector<std::vector<std::vector<Joined>>>> joined;
  std::vector<std::vector<StageRun>> runs;  // (stages): Keep::all
};

/// Makes the round of this limit. With Keep::bound, elements and joins are not kept.
Round search_suffixes(const Chain&, const IntervalBounds&, const Windows&, int64_t limit, StageLabels::Keep,
                      int threads, const Budget&);

/// Strategies of layers [begin, end) whose stage costs no more than `cost` in any number.
std::vector<int> recover_stage(const Chain&, const std::vector<double>& lambdas, StageLabels::Keep, int stage,
                               int begin, int entry, int end, int exit, const StageCost& cost);
/// The assignment behind a label at stage 0.
Assignment recover(const Chain&, const IntervalBounds&, const Round&, int entry, int index);

}  // namespace tern
