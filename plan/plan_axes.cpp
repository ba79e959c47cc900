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

bool always(const OuterChoice&) { return true; }

}  // namespace

// The row's ways to and from a value: `at` in a PlanPoint, `pin` among PinnedAxes.
#define TERN_AXIS(at, pinned)                                                         \
  [](const PlanPoint& p) { return static_cast<int64_t>(p.at); },                      \
      [](PlanPoint& p, int64_t value) { p.at = static_cast<decltype(p.at)>(value); }, \
      [](const PinnedAxes& p) { return number_of(p.pinned); },                        \
      [](PinnedAxes& p, std::optional<int64_t> value) { assign(p.pinned, value); }

const std::vector<PlanAxis>& plan_axes() {
  using Part = PlanAxis::Part;
  const auto several = [](const OuterChoice& c) { return c.num_stages > 1; };
  const auto in_context = [](const OuterChoice& c) { return c.mesh.context > 1; };
  static const std::vector<PlanAxis> all{
      {"tp",
       "tensor",
       "tensor",
       "tensor parallelism",
       1 << 16,
       Part::mesh,
       1,
       kMostDegree,
       {},
       TERN_AXIS(choice.mesh.tensor, tensor),
       always},
      {"cp",
       "context",
       "context",
       "context parallelism",
       1 << 16,
       Part::mesh,
       1,
       kMostDegree,
       {},
       TERN_AXIS(choice.mesh.context, context),
       always},
      {"cp-by",
       "context_by",
       "context by",
       "",
       0,
       Part::mesh,
       0,
       1,
       {"ring", "ulysses"},
       TERN_AXIS(choice.mesh.ulysses, ulysses),
       in_context},
      {"dp",
       "data",
       "data",
       "data parallelism",
       1 << 22,
       Part::mesh,
       1,
       kMostDegree,
       {},
       TERN_AXIS(choice.mesh.data, data),
       always},
      {"ep",
       "expert",
       "expert",
       "expert parallelism",
       1 << 16,
       Part::mesh,
       1,
       kMostDegree,
       {},
       TERN_AXIS(choice.mesh.expert, expert),
       always},
      {"etp",
       "expert_tensor",
       "expert tensor",
       "expert tensor parallelism",
       1 << 16,
       Part::mesh,
       1,
       kMostDegree,
       {},
       TERN_AXIS(choice.mesh.expert_tensor, expert_tensor),
       always},
      {"pp",
       "stages",
       "stages",
       "pipeline parallelism",
       4096,
       Part::pipeline,
       1,
       kMostLayers,
       {},
       TERN_AXIS(choice.num_stages, stages),
       always},
      {"chunks",
       "chunks",
       "chunks",
       "virtual stages",
       1024,
       Part::pipeline,
       1,
       kMostLayers,
       {},
       TERN_AXIS(choice.chunks_per_stage, chunks),
       always},
      {"schedule", "schedule", "schedule", "schedule", 0, Part::pipeline, 0, 0, words_of(kPipelineSchedules),
       TERN_AXIS(choice.schedule, schedule), several},
      {"micro-batch",
       "micro_batch",
       "micro-batch",
       "micro batch",
       1 << 20,
       Part::mesh,
       1,
       kMostDegree,
       {},
       TERN_AXIS(choice.micro_batch, micro_batch),
       always},
      {"micro-batches",
       "micro_batches",
       "micro-batches",
       "",
       0,
       Part::pipeline,
       1,
       kMostDegree,
       {},
       TERN_AXIS(choice.num_micro, micro_batches),
       always},
      {"zero", "zero", "zero", "zero", 3, Part::layer, 0, 3, {}, TERN_AXIS(strategy.zero, zero), always},
      {"recompute", "recompute", "recompute", "recompute", 0, Part::layer, 0, 0, words_of(kRecomputes),
       TERN_AXIS(strategy.recompute, recompute), always},
      {"states", "states", "states", "", 0, Part::layer, 0, 0, words_of(kTierValues),
       TERN_AXIS(strategy.states, states), always},
      {"activations", "activations", "activations", "", 0, Part::layer, 0, 0, words_of(kTierValues),
       TERN_AXIS(strategy.activations, activations), always},
  };
  return all;
}

#undef TERN_AXIS

std::string PlanAxis::text(int64_t value) const {
  return values.empty() ? fmt::format("{}", value) : std::string(values[static_cast<size_t>(value)]);
}

bool PinnedAxes::any() const { return !(*this == PinnedAxes{}); }

}  // namespace tern
