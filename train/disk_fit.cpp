#include "train/disk_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "model/taken_factors.h"
#include "model/visit_weights.h"
#include "train/checkpoint.h"
#include "train/fit.h"
#include "train/stored_run.h"

namespace tern {

PredictedDisk predict_disk(const ModelSpec& spec, const TrainSettings& s, Io& io) {
  TrainSettings in_memory = s;
  in_memory.states_on_disk = false;
  PredictedDisk disk{.checkpoint = predict_memory(spec, in_memory, 0).checkpoint,
                     .model = num_parameters(spec) * size_of(s.dtype) + 4 * num_fixed_numbers(spec)};
  if (s.adapter) {
    disk.model = 0;
    for (const ParameterInfo& info : trained_parameters(spec))
      disk.model += (takes_factors(s.adapter->init) ? 8 : 4) * info.shape.count();
  }
  if (s.keep_best) disk.model *= 2;
  if (s.states_on_disk && s.states_directory.empty()) disk.states = stored_shape(spec, s).layout.file_bytes;
  const int64_t every = s.checkpoint_every > 0 ? s.checkpoint_every : s.schedule.total_steps;
  const int64_t written = (s.schedule.total_steps + every - 1) / every;
  disk.num_checkpoints = std::min<int64_t>(written, s.keep_checkpoints + 1);
  const std::string checkpoints = join_path(s.output, "checkpoints");
  if (s.output.empty() || s.resume == Resume::never || !io.stat(checkpoints)) return disk;
  for (const std::string& name : io.list(checkpoints)) {
    if (!checkpoint_step(name)) continue;
    const std::string directory = join_path(checkpoints, name);
    for (const std::string& file : io.list(directory))
      if (const auto info = io.stat(join_path(directory, file))) disk.present += info->size_bytes;
  }
  return disk;
}

void require_disk(const PredictedDisk& disk, const TrainSettings& s, Io& io) {
  if (s.output.empty()) return;
  const std::optional<int64_t> there = io.free_bytes(s.output);
  if (!there || disk.wanted() <= *there) return;
  throw Error(
      ErrorKind::does_not_fit,
      "{}: this run writes up to {} there ({} of {} at a time{}, the model {}{}), the disk has {} free; free {}, "
      "choose an --output on another disk{}",
      s.output, format_bytes(disk.wanted()), counted(disk.num_checkpoints, "checkpoint"), format_bytes(disk.checkpoint),
      disk.present > 0 ? fmt::format(", {} of them are there already", format_bytes(disk.present)) : "",
      format_bytes(disk.model),
      disk.states > 0 ? fmt::format(", the optimizer's states {}", format_bytes(disk.states)) : "",
      format_bytes(*there), format_bytes(disk.wanted() - *there),
      disk.num_checkpoints > 2 ? ", or lower --keep-checkpoints (a new checkpoint is written before an old one "
                                 "goes)"
                               : "");
}

}  // namespace tern
