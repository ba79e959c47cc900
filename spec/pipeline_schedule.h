#pragma once
// Pipeline schedules: one table of names and traits. Plans, search, bounds, judges and other frameworks' command lines
// ask the table; the order of operations is a generator in program/. A new schedule is a value, a row and a generator:
// docs/contributing.md.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tern {

enum class PipelineSchedule : uint8_t {
  gpipe,
  one_f_one_b,
  deep_one_f_one_b,
  interleaved,
  zb_h1,
  zb_h2,
  zb_v,
  v_half,
};

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

/// A row. What a schedule leaves out is the careful value: bounds then rest on work and paths alone, memory on the
/// simulated order.
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

inline constexpr std::array kPipelineScheduleTable{
    PipelineScheduleTraits{.schedule = PipelineSchedule::gpipe,
                           .name = "gpipe",
                           .in_flight = InFlight::all,
                           .certified = true,
                           .torchtitan = "GPipe"},
    PipelineScheduleTraits{.schedule = PipelineSchedule::one_f_one_b,
                           .name = "1f1b",
                           .in_flight = InFlight::stages_left,
                           .steady = true,
                           .least_memory = true,
                           .certified = true,
                           .megatron = true,
                           .torchtitan = "1F1B"},
    PipelineScheduleTraits{.schedule = PipelineSchedule::deep_one_f_one_b,
                           .name = "1f1b-deep",
                           .in_flight = InFlight::twice_stages_left,
                           .steady = true},
    PipelineScheduleTraits{.schedule = PipelineSchedule::interleaved,
                           .name = "interleaved",
                           .chunks = ChunkRule::several,
                           .micro_divides_by_stages = true,
                           .steady = true,
                           .megatron = true,
                           .torchtitan = "Interleaved1F1B"},
    PipelineScheduleTraits{.schedule = PipelineSchedule::zb_h1,
                           .name = "zb-h1",
                           .in_flight = InFlight::stages_left,
                           .splits_backward = true,
                           .order_follows_times = true},
    PipelineScheduleTraits{.schedule = PipelineSchedule::zb_h2,
                           .name = "zb-h2",
                           .in_flight = InFlight::twice_stages_left,
                           .splits_backward = true,
                           .order_follows_times = true},
    PipelineScheduleTraits{.schedule = PipelineSchedule::zb_v,
                           .name = "zb-v",
                           .chunks = ChunkRule::two,
                           .splits_backward = true,
                           .v_shaped = true,
                           .torchtitan = "ZBVZeroBubble"},
    PipelineScheduleTraits{.schedule = PipelineSchedule::v_half,
                           .name = "v-half",
                           .chunks = ChunkRule::two,
                           .splits_backward = true,
                           .v_shaped = true,
                           .least_memory = true},
};

/// All schedules, in the order of their values.
inline constexpr auto kPipelineSchedules = [] {
  std::array<PipelineSchedule, kPipelineScheduleTable.size()> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = kPipelineScheduleTable[i].schedule;
  return all;
}();
static_assert([] {
  for (size_t i = 0; i < kPipelineSchedules.size(); ++i)
    if (static_cast<size_t>(kPipelineSchedules[i]) != i) return false;
  return true;
}());

/// The name of the one order that a pipeline of a single stage has.
inline constexpr PipelineSchedule kOneStageSchedule = PipelineSchedule::one_f_one_b;

constexpr const PipelineScheduleTraits& traits_of(PipelineSchedule s) {
  return kPipelineScheduleTable[static_cast<size_t>(s)];
}
constexpr std::string_view name_of(PipelineSchedule s) { return traits_of(s).name; }
constexpr bool splits_backward(PipelineSchedule s) { return traits_of(s).splits_backward; }
constexpr bool is_v_shaped(PipelineSchedule s) { return traits_of(s).v_shaped; }
constexpr bool order_follows_times(PipelineSchedule s) { return traits_of(s).order_follows_times; }
/// Whether every stage forwards what it may hold before its first backward, and the times do not change the order.
constexpr bool fills_first(PipelineSchedule s) {
  return traits_of(s).in_flight != InFlight::by_order && !order_follows_times(s);
}
/// Chunks per device that plans look at: from the least to the most, of `most` at all. Interleaved with one chunk has an
/// order too, and is no plan: 1F1B is as good.
constexpr int least_chunks(PipelineSchedule s) { return traits_of(s).chunks == ChunkRule::one ? 1 : 2; }
constexpr int most_chunks(PipelineSchedule s, int most) {
  return traits_of(s).chunks == ChunkRule::several ? most : least_chunks(s);
}

/// What InFlight says of `stage`. Of a schedule without a rule: all micro-batches.
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
