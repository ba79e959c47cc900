#pragma once
// Checkpoints that all ranks write. Each rank writes what it keeps straight into the one data file, at the bytes where it belongs, and reads
// it from there. So a rank needs no memory beyond its own state, and the first rank receives no other rank's tensors. The file's bytes, and
// its commit, are those of a checkpoint that one rank writes (train/checkpoint.h):
//
//   1  the first rank makes the temporary directory and in it the data file with its header (begin_shared)
//   2  every rank writes its bytes (write_share); the system has them then; over several machines each rank also syncs
//   3  the first rank learns what each rank has written (join_shares), syncs the file, and commits it (CheckpointWriter)
//
// A rank that ends before 3 leaves a temporary directory, which the next start removes.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/io.h"
#include "comm/comm.h"
#include "formats/safetensors/layout.h"
#include "train/manifest.h"
#include "train/state_tensors.h"
#include "train/tensor_place.h"

namespace tern {

/// Where the tensors lie in the data file. It is the same on all ranks, as it depends on names, types and shapes alone. Errors: those of
/// safetensors_layout.
SafetensorsLayout layout_of_state(std::span<const StateTensor>);

/// Where a run's ranks write their checkpoints. The ranks agree on it once, before the first step.
struct SharedPlace {
  std::string checkpoints;  // directory
  std::string id;           // of the first rank's CheckpointWriter
};
/// The data file of step-N while it is being written.
std::string shared_path(const SharedPlace&, int64_t step);
/// Makes the temporary directory of step-N, and in it the data file, which begins with the layout's header. Only the first rank calls it;
/// afterwards the other ranks open the file at shared_path. Errors: the disk's.
std::unique_ptr<IoFile> begin_shared(Io&, const SharedPlace&, int64_t step, const SafetensorsLayout&);

/// What a rank has written.
struct WrittenShare {
  int64_t bytes = 0;
  uint32_t crc32c = 0;  // its share in the file's checksum (base/crc32c_shares.h)
};
/// Writes those elements of the state that rank `rank` has to write (for_each_written_run). The first rank's share includes the header,
/// which is in the file already. Memory: none beyond the state. Errors: the disk's.
WrittenShare write_share(IoFile&, const SafetensorsLayout&, std::span<const StateTensor>, int rank, const TensorPlace&);

/// What all ranks together have written. All ranks call it; it returns when every rank has written. Errors: the transport's.
WrittenShare join_shares(Comm& world, const WrittenShare&);
/// The entry of the data file for the manifest. `all`: from join_shares. Errors: TERN_CHECK: the shares are not the whole file.
CheckpointFile file_of_shares(const SafetensorsLayout&, const WrittenShare& all);

}  // namespace tern
