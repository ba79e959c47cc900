#include "spec/pipeline_schedule.h"

namespace tern {
namespace {

using enum PipelineSchedule;

// By PipelineSchedule's values. Sources of the orders: program/pipeline.h.
constexpr std::array<PipelineScheduleTraits, kPipelineSchedules.size()> kTraits{{
    {.schedule = gpipe, .name = "gpipe", .chunks = ChunkRule::one},
    {.schedule = one_f_one_b, .name = "1f1b", .chunks = ChunkRule::one},
    {.schedule = deep_one_f_one_b, .name = "1f1b-deep", .chunks = ChunkRule::one},
    {.schedule = interleaved, .name = "interleaved", .chunks = ChunkRule::several, .micro_divides_by_stages = true},
    {.schedule = zb_h1,
     .name = "zb-h1",
     .chunks = ChunkRule::one,
     .splits_backward = true,
     .order_follows_times = true},
    {.schedule = zb_h2,
     .name = "zb-h2",
     .chunks = ChunkRule::one,
     .splits_backward = true,
     .order_follows_times = true},
    {.schedule = zb_v, .name = "zb-v", .chunks = ChunkRule::two, .splits_backward = true, .v_shaped = true},
    {.schedule = v_half, .name = "v-half", .chunks = ChunkRule::two, .splits_backward = true, .v_shaped = true},
}};

constexpr bool rows_in_order() {
  for (size_t i = 0; i < kTraits.size(); ++i)
    if (kTraits[i].schedule != kPipelineSchedules[i] || static_cast<size_t>(kTraits[i].schedule) != i) return false;
  return true;
}
static_assert(rows_in_order());

}  // namespace

const PipelineScheduleTraits& traits_of(PipelineSchedule s) { return kTraits[static_cast<size_t>(s)]; }

}  // namespace tern
