#pragma once
// Runs whose optimizer states lie in a file (--states disk): which runs can do so, how they begin, and what a checkpoint holds of them. Bits and
// checkpoints are those of a run whose states lie in memory, and either kind of run can resume from the other's checkpoint.

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

/// Why the states of a run with these settings cannot lie in a file, in words that follow the option's name; empty: they can. It does not
/// matter whether --states disk was given.
std::string why_not_stored(const TrainSettings&);
/// Refuses --states disk if the states cannot lie in a file, --states-dir without --states disk, and a --states-dir whose files lie in memory.
/// Errors  usage; the disk's: no such folder.
void check_stored_states(const TrainSettings&);

/// Where the states lie in the file, and the memory through which they pass.
struct StoredShape {
  StoredLayout layout;
  StoredPassage passage;
};
StoredShape stored_shape(const ModelSpec&, const TrainSettings&);
/// Bytes of the memory through which states pass, as the arena will count them.
int64_t stored_memory_bytes(const ModelSpec&, const TrainSettings&);
/// The folder that holds the file.
const std::string& states_directory(const TrainSettings&);
/// Makes a new file of zeros. Errors: those of open_scratch.
std::unique_ptr<StoredStates> open_stored_states(const ModelSpec&, const TrainSettings&, Arena&);

/// The indices of the parameters, in the order in which the Program's UPDATEs change them. `infos`: those of the state.
std::vector<size_t> update_order(const Program&, const std::vector<ParameterInfo>& infos);

/// The tensors of a checkpoint (train/state_tensors.h). They refer to the state; what lies in the file is read only when they are written.
std::vector<TensorToWrite> stored_tensors(const TrainSettings&, const TrainState&);
/// Fills the file from a checkpoint, and the weights with the rounded masters. The checkpoint's tensors must have been compared with
/// state_tensors before. Errors  the disk's.
void read_stored(const Safetensors&, const ModelSpec&, const TrainSettings&, TrainState&);

}  // namespace tern
