#pragma once
// Runs whose optimizer states lie in a file (--states disk): what they take, how they begin, what of them a checkpoint holds. The
// bits of a run, and its checkpoints, are those of one whose states lie in memory, and either goes on from the other's.

#include <memory>
#include <string>
#include <vector>

#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/write.h"
#include "model/visit_weights.h"
#include "program/program.h"
#include "train/settings.h"
#include "train/train_state.h"
#include "update/stored_states.h"

namespace tern {

/// Why this run's states cannot lie in a file, whether or not that was asked for; empty: they can.
/// For people, behind the option's name.
std::string why_not_stored(const TrainSettings&);
/// Errors  usage: --states disk, and why not; --states-dir without it.
void check_stored_states(const TrainSettings&);

struct StoredPlan {
  StoredLayout layout;
  StoredPassage passage;
};
StoredPlan plan_stored_states(const ModelSpec&, const TrainSettings&);
/// What of them lies in memory: the passage. What the arena will count.
int64_t stored_memory_bytes(const ModelSpec&, const TrainSettings&);
/// The folder on whose disk they lie.
const std::string& states_directory(const TrainSettings&);
/// A new file of zeros. Errors: those of open_scratch.
std::unique_ptr<StoredStates> open_stored_states(const ModelSpec&, const TrainSettings&, Arena&);

/// Parameters in the order in which the Program's UPDATEs change them. Shapes: infos: the state's.
std::vector<size_t> update_order(const Program&, const std::vector<ParameterInfo>& infos);

/// The tensors of a checkpoint (train/state_tensors.h); what lies in the file is read as it is written. They look into the state.
std::vector<TensorToWrite> stored_tensors(const TrainSettings&, const TrainState&);
/// Fills the file from a checkpoint whose tensors have been compared with state_tensors, and the weights that masters are rounded to.
void read_stored(const Safetensors&, const ModelSpec&, const TrainSettings&, TrainState&);

}  // namespace tern
