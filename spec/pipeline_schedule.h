#pragma once
// Pipeline schedules: their names and the traits that plans, search and generators ask. One row each (traits_of); the
// order of operations is in program/.

#include <array>
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

/// How many chunks of layers (virtual stages) a device has.
enum class ChunkRule : uint8_t { one, two, several };

struct PipelineScheduleTraits {
  PipelineSchedule schedule;
  std::string_view name;         // in plan files, options and tables: "1f1b"
  ChunkRule chunks;              // two: the V shapes
  bool splits_backward;          // the weight gradient is an operation of its own
  bool v_shaped;                 // a device has stages s and 2·devices − 1 − s; otherwise they go round robin
  bool order_follows_times;      // the order of operations depends on the stages' times
  bool micro_divides_by_stages;  // wants a number of micro-batches that the number of devices divides
};

/// The table's row.
const PipelineScheduleTraits& traits_of(PipelineSchedule);

inline constexpr std::array kPipelineSchedules{
    PipelineSchedule::gpipe,       PipelineSchedule::one_f_one_b, PipelineSchedule::deep_one_f_one_b,
    PipelineSchedule::interleaved, PipelineSchedule::zb_h1,       PipelineSchedule::zb_h2,
    PipelineSchedule::zb_v,        PipelineSchedule::v_half};

inline std::string_view name_of(PipelineSchedule s) { return traits_of(s).name; }
inline bool splits_backward(PipelineSchedule s) { return traits_of(s).splits_backward; }
inline bool is_v_shaped(PipelineSchedule s) { return traits_of(s).v_shaped; }
inline bool order_follows_times(PipelineSchedule s) { return traits_of(s).order_follows_times; }
/// The least number of chunks per device that has an order: 1, or 2 (interleaved takes more too).
inline int least_chunks(PipelineSchedule s) { return traits_of(s).chunks == ChunkRule::one ? 1 : 2; }

}  // namespace tern
