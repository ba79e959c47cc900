#pragma once
// The axes of a plan, one row each: their names and their values. --fix, plan files, the families of other plans (PlannedFamily)
// and tables of runs all use these rows. A new axis needs a member in the struct that keeps its value, a pin in PinnedAxes, and a row.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/frameworks.h"
#include "plan/strategy.h"
#include "spec/recompute.h"

namespace tern {

/// Axes with a given value (pins); the search chooses the others.
struct PinnedAxes {
  std::optional<int64_t> tensor, context, data, expert, expert_tensor;
  std::optional<bool> ulysses;  // of choices with context > 1
  std::optional<int64_t> stages, chunks;
  std::optional<PipelineSchedule> schedule;  // of choices with several stages
  std::optional<int64_t> micro_batch, micro_batches;
  // Of every layer.
  std::optional<int> zero;
  std::optional<Recompute> recompute;
  std::optional<Tier> states, activations;
  /// Layers lie as in most frameworks: every virtual stage has equally many blocks, the first also what precedes the
  /// blocks, the last also what follows; all layers have one strategy, all stages one type of node.
  bool even = false;
  /// Only what this framework can run; --fix has no such axis.
  std::optional<Framework> framework;

  bool any() const;
  friend bool operator==(const PinnedAxes&, const PinnedAxes&) = default;
};

/// One configuration: the outer choice, and one strategy.
struct PlanPoint {
  OuterChoice choice;
  LayerStrategy strategy;
};

/// An axis: its names, its values, and where its value is kept.
struct PlanAxis {
  /// mesh: the mesh's axes and the micro-batch; their values are known before stages are chosen.
  enum class Part : uint8_t { mesh, pipeline, layer };

  std::string_view name;         // in --fix: "tp"
  std::string_view key;          // in plan files: "tensor"
  std::string_view words;        // in messages: "tensor"
  std::string_view column = {};  // in tables of runs: "tensor parallelism"; "": none
  int64_t most_in_table = 0;     // the largest value that a table of runs may have for it
  Part part;
  int64_t least = 1, most = 0;  // the range of a value that is a number
  /// The words for the values: a value is the index of its word here. Empty: the value is a number.
  std::vector<std::string_view> values = {};
  int64_t (*get)(const PlanPoint&);
  void (*set)(PlanPoint&, int64_t);
  std::optional<int64_t> (*pin)(const PinnedAxes&);
  void (*set_pin)(PinnedAxes&, std::optional<int64_t>);
  /// Whether the axis matters under this choice.
  bool (*counts)(const OuterChoice&) = [](const OuterChoice&) { return true; };

  std::string text(int64_t value) const;  // "8", "1f1b"
};

/// Every axis, in the order of --fix and plan files.
const std::vector<PlanAxis>& plan_axes();

}  // namespace tern
