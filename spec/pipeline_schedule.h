#pragma once
// Pipeline schedules: one table of names and traits, with rows in spec/pipeline_schedules.def. Plans, search, bounds,
// judges (planner/judges/) and the writers of other frameworks' command lines read the table. A generator in program/
// gives a schedule's order of operations. A new schedule needs a row and a generator: docs/contributing.md.

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

/// How many chunks of layers (virtual stages) a device has; `two` belongs to the V-shaped schedules.
enum class ChunkRule : uint8_t { one, two, several };

/// The most micro-batches, of c, that stage i of P holds between their forward and their backward. Unless the order
/// follows the times, the stage holds this many before its first backward. For schedules with one chunk per device.
enum class InFlight : uint8_t {
  by_order,           // no closed form: follows from the order of operations
  all,                // c
  stages_left,        // min(c, P − i)
  twice_stages_left,  // min(c, 2·(P − i) − 1)
};

/// One row of the table; a trait that a row leaves out has the value below. Without in_flight, lower bounds of a step come
/// only from each device's work and the longest path. The stage model (program/) never reads in_flight: it derives bytes from the order of operations.
struct PipelineScheduleTraits {
  PipelineSchedule schedule;
  std::string_view name;  // in plan files, options and tables: "1f1b"
  ChunkRule chunks = ChunkRule::one;
  InFlight in_flight = InFlight::by_order;
  bool splits_backward = false;      // the weight gradient is an operation of its own
  bool v_shaped = false;             // a device has stages s and 2·devices − 1 − s; false: stages go round robin
  bool order_follows_times = false;  // the order of operations depends on the stages' times
  bool micro_divides_by_stages = false;  // the number of devices must divide the number of micro-batches
  bool steady = false;                   // between fill and drain each device alternates forwards and backwards
  bool least_memory = false;             // no schedule with as many chunks per device holds less
  bool certified = false;                // the judges' proof by labels and their mixed-integer programme cover it
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

/// A pipeline of one stage has only one order of operations. Plans give it this schedule.
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

/// The most micro-batches that `stage` holds, by the schedule's InFlight; by_order: all of them.
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
