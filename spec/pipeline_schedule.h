#pragma once
// Pipeline schedules: one table of names and traits, its rows in spec/pipeline_schedules.def. Plans, search, bounds,
// judges and other frameworks' command lines ask the table; the order of operations is a generator in program/. A new
// schedule is a row and a generator: docs/contributing.md.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tern {

#define TERN_PIPELINE_SCHEDULE(value, ...) value,
enum class PipelineSchedule : uint8_t {
#include "spec/pipeline_schedules.def"
};
#undef TERN_PIPELINE_SCHEDULE

/// How many chunks of layers (virtual stages) a device has. two: the V shapes.
enum class ChunkRule : uint8_t { one, two, several };

/// The most micro-batches, of c, that stage i of P holds between their forward and their backward. Unless the order
/// follows the times, the stage holds this many before its first backward. For schedules with one chunk per device.
enum class InFlight : uint8_t {
  by_order,           // no rule: the order of operations says it
  all,                // c
  stages_left,        // min(c, P − i)
  twice_stages_left,  // min(c, 2·(P − i) − 1)
};

/// One row of the table. What a row leaves out has the value below. Without in_flight and steady, bounds use work and
/// paths alone, and the stage model (program/) takes bytes from the order: both are right for any schedule.
struct PipelineScheduleTraits {
  PipelineSchedule schedule;
  std::string_view name;  // in plan files, options and tables: "1f1b"
  ChunkRule chunks = ChunkRule::one;
  InFlight in_flight = InFlight::by_order;
  bool splits_backward = false;      // the weight gradient is an operation of its own
  bool v_shaped = false;             // a device has stages s and 2·devices − 1 − s; otherwise they go round robin
  bool order_follows_times = false;  // the order of operations depends on the stages' times
  bool micro_divides_by_stages = false;  // the number of devices must divide the number of micro-batches
  bool steady = false;                   // between fill and drain each device takes a forward and a backward in turns
  bool least_memory = false;             // of the schedules with as many chunks, none holds less
  bool certified = false;                // the judges' proof by labels and the mixed-integer programme cover it
  bool megatron = false;                 // Megatron-LM runs it
  std::string_view torchtitan = {};      // its name in torchtitan; "": not there
};

#define TERN_PIPELINE_SCHEDULE(value, ...) PipelineScheduleTraits{.schedule = PipelineSchedule::value, __VA_ARGS__},
inline constexpr std::array kPipelineScheduleTable{
#include "spec/pipeline_schedules.def"
};
#undef TERN_PIPELINE_SCHEDULE

/// All schedules, in the order of their values.
inline constexpr auto kPipelineSchedules = [] {
  std::array<PipelineSchedule, kPipelineScheduleTable.size()> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = kPipelineScheduleTable[i].schedule;
  return all;
}();

/// The name of the one order that a pipeline of a single stage has.
inline constexpr PipelineSchedule kOneStageSchedule = PipelineSchedule::one_f_one_b;

constexpr const PipelineScheduleTraits& traits_of(PipelineSchedule s) {
  return kPipelineScheduleTable[static_cast<size_t>(s)];
}
constexpr std::string_view name_of(PipelineSchedule s) { return traits_of(s).name; }
constexpr bool splits_backward(PipelineSchedule s) { return traits_of(s).splits_backward; }
constexpr bool is_v_shaped(PipelineSchedule s) { return traits_of(s).v_shaped; }
constexpr bool order_follows_times(PipelineSchedule s) { return traits_of(s).order_follows_times; }
/// Whether every stage runs all the forwards that it may hold before its first backward, and the times do not change the order.
constexpr bool fills_first(PipelineSchedule s) {
  return traits_of(s).in_flight != InFlight::by_order && !order_follows_times(s);
}
/// Chunks per device that the search looks at: from least_chunks to most_chunks. `most`: the most that the search space allows
/// (SearchSpace::max_chunks). Interleaved with one chunk has an order too, but is not searched: 1F1B is as good.
constexpr int least_chunks(PipelineSchedule s) { return traits_of(s).chunks == ChunkRule::one ? 1 : 2; }
constexpr int most_chunks(PipelineSchedule s, int most) {
  return traits_of(s).chunks == ChunkRule::several ? most : least_chunks(s);
}

/// The most micro-batches that `stage` holds, by its schedule's InFlight; of a schedule without a rule: all.
constexpr int64_t most_in_flight(PipelineSchedule s, int64_t stage, int64_t num_stages, int64_t num_micro) {
  switch (traits_of(s).in_flight) {
    case InFlight::stages_left:
      return std::min(num_micro, num_stages - stage);
    case InFlight::twice_stages_left:
      return std::min(num_micro, 2 * (num_stages - stage) - 1);
    case InFlight::all:
    case InFlight::by_order:
      break;
  }
  return num_micro;
}

}  // namespace tern
