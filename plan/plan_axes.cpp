#include "plan/plan_axes.h"

#include <fmt/format.h>

namespace tern {
namespace {

constexpr int64_t kMostDegree = int64_t{1} << 31, kMostLayers = 1 << 20;

// The words of an enum's values, by their number.
template <class Values>
std::vector<std::string_view> words_of(const Values& values) {
  std::vector<std::string_view> words;
  for (const auto v : values) words.push_back(name_of(v));
  return words;
}

template <class T>
std::optional<int64_t> number_of(const std::optional<T>& value) {
  return value ? std::optional(static_cast<int64_t>(*value)) : std::nullopt;
}
template <class T>
void assign(std::optional<T>& to, std::optional<int64_t> value) {
  to = value ? std::optional(static_cast<T>(*value)) : std::nullopt;
}

}  // namespace

// The row's ways to and from a value: `at` in a PlanPoint, `pinned` among PinnedAxes.
#define TERN_AXIS(at, pinned)                                                            \
  .get = [](const PlanPoint& p) { return static_cast<int64_t>(p.at); },                  \
  .set = [](PlanPoint& p, int64_t value) { p.at = static_cast<decltype(p.at)>(value); }, \
  .pin = [](const PinnedAxes& p) { return number_of(p.pinned); },                        \
  .set_pin = [](PinnedAxes& p, std::optional<int64_t> value) { assign(p.pinned, value); }

const std::vector<PlanAxis>& plan_axes() {
  using Part = PlanAxis::Part;
  // clang-format off
  static const std::vector<PlanAxis> all{
      {.name = "tp", .key = "tensor", .words = "tensor", .column = "tensor parallelism", .most_in_table = 1 << 16,
       .part = Part::mesh, .most = kMostDegree, TERN_AXIS(choice.mesh.tensor, tensor)},
      {.name = "cp", .key = "context", .words = "context", .column = "context parallelism", .most_in_table = 1 << 16,
       .part = Part::mesh, .most = kMostDegree, TERN_AXIS(choice.mesh.context, context)},
      {.name = "cp-by", .key = "context_by", .words = "context by", .part = Part::mesh, .values = {"ring", "ulysses"},
       TERN_AXIS(choice.mesh.ulysses, ulysses), .counts = [](const OuterChoice& c) { return c.mesh.context > 1; }},
      {.name = "dp", .key = "data", .words = "data", .column = "data parallelism", .most_in_table = 1 << 22,
       .part = Part::mesh, .most = kMostDegree, TERN_AXIS(choice.mesh.data, data)},
      {.name = "ep", .key = "expert", .words = "expert", .column = "expert parallelism", .most_in_table = 1 << 16,
       .part = Part::mesh, .most = kMostDegree, TERN_AXIS(choice.mesh.expert, expert)},
      {.name = "etp", .key = "expert_tensor", .words = "expert tensor", .column = "expert tensor parallelism",
       .most_in_table = 1 << 16, .part = Part::mesh, .most = kMostDegree,
       TERN_AXIS(choice.mesh.expert_tensor, expert_tensor)},
      {.name = "pp", .key = "stages", .words = "stages", .column = "pipeline parallelism", .most_in_table = 4096,
       .part = Part::pipeline, .most = kMostLayers, TERN_AXIS(choice.num_stages, stages)},
      {.name = "chunks", .key = "chunks", .words = "chunks", .column = "virtual stages", .most_in_table = 1024,
       .part = Part::pipeline, .most = kMostLayers, TERN_AXIS(choice.chunks_per_stage, chunks)},
      {.name = "schedule", .key = "schedule", .words = "schedule", .column = "schedule", .part = Part::pipeline,
       .values = words_of(kPipelineSchedules), TERN_AXIS(choice.schedule, schedule),
       .counts = [](const OuterChoice& c) { return c.num_stages > 1; }},
      {.name = "micro-batch", .key = "micro_batch", .words = "micro-batch", .column = "micro batch",
       .most_in_table = 1 << 20, .part = Part::mesh, .most = kMostDegree, TERN_AXIS(choice.micro_batch, micro_batch)},
      {.name = "micro-batches", .key = "micro_batches", .words = "micro-batches", .part = Part::pipeline,
       .most = kMostDegree, TERN_AXIS(choice.num_micro, micro_batches)},
      {.name = "zero", .key = "zero", .words = "zero", .column = "zero", .most_in_table = 3, .part = Part::layer,
       .least = 0, .most = 3, TERN_AXIS(strategy.zero, zero)},
      {.name = "recompute", .key = "recompute", .words = "recompute", .column = "recompute", .part = Part::layer,
       .values = words_of(kRecomputes), TERN_AXIS(strategy.recompute, recompute)},
      {.name = "states", .key = "states", .words = "states", .part = Part::layer, .values = words_of(kTierValues),
       TERN_AXIS(strategy.states, states)},
      {.name = "activations", .key = "activations", .words = "activations", .part = Part::layer,
       .values = words_of(kTierValues), TERN_AXIS(strategy.activations, activations)},
  };
  // clang-format on
  return all;
}

#undef TERN_AXIS

std::string PlanAxis::text(int64_t value) const {
  return values.empty() ? fmt::format("{}", value) : std::string(values[static_cast<size_t>(value)]);
}

bool PinnedAxes::any() const { return !(*this == PinnedAxes{}); }

}  // namespace tern
