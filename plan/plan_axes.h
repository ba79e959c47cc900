#pragma once
// The axes of a plan, one row each: what they are called and which values they have. The rows stand behind --fix, plan
// files, the rival families and tables of runs; a new axis is a member of its value struct, a pin and a row.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/frameworks.h"
#include "plan/strategy.h"
#include "spec/recompute.h"

namespace tern {

/// Axes that are given; the rest is searched.
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
  /// Only what this framework can run; not an axis of --fix.
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
  enum class Part : uint8_t { mesh, pipeline, layer };  // mesh: the mesh's axes and the micro-batch, which are known before the
                                                        // stages are

  std::string_view name;         // in --fix: "tp"
  std::string_view key;          // in plan files: "tensor"
  std::string_view words;        // in messages: "tensor"
  std::string_view column = {};  // in tables of runs: "tensor parallelism"; "": none
  int64_t most_in_table = 0;     // the largest value that a table may have in that column
  Part part;
  int64_t least = 1, most = 0;  // the range of the value, where that is a number
  /// The words that the value may be; the value is then the place of its word among them. Empty: the value is a number.
  std::vector<std::string_view> values = {};
  int64_t (*get)(const PlanPoint&);
  void (*set)(PlanPoint&, int64_t);
  std::optional<int64_t> (*pin)(const PinnedAxes&);
  void (*set_pin)(PinnedAxes&, std::optional<int64_t>);
  /// Whether the axis means anything under this choice.
  bool (*counts)(const OuterChoice&) = [](const OuterChoice&) { return true; };

  std::string text(int64_t value) const;  // "8", "1f1b"
};

/// Every axis, in the order of --fix and plan files.
const std::vector<PlanAxis>& plan_axes();

}  // namespace tern
