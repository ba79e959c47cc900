#pragma once
// Checkpoints on disk. A checkpoint is either committed whole or not visible as one; it is checked when it is read.
//
//   CHECKPOINTS/writer-ID.lock                                        held while the writer ID lives
//   CHECKPOINTS/step-N.tmp-ID/{rank-R.safetensors, manifest.json}     being written
//   CHECKPOINTS/step-N/…                                              committed
//   CHECKPOINTS/step-N.broken-K/…                                     did not verify, so it was moved aside; tern
//                                                                     never deletes it
//
// A commit writes and syncs the data file (several ranks may write it together: train/shared_checkpoint.h), writes and syncs manifest.json, syncs
// the temporary directory, renames it to step-N, and syncs CHECKPOINTS. A crash before the rename leaves a temporary directory, which the next start
// removes, as no living writer holds its lock. A crash after the rename leaves a checkpoint whose bytes were all on the disk before.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/io.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/write.h"
#include "train/manifest.h"

namespace tern {

std::string rank_file(int rank);                                // "rank-0.safetensors"
std::string checkpoint_name(int64_t step);                      // "step-40"
std::optional<int64_t> checkpoint_step(std::string_view name);  // 40 of "step-40"; none of .tmp- and .broken- names

/// What commit_checkpoint found.
enum class Committed : uint8_t {
  written,
  identical,  // step-N was there, verified and had the same files; nothing changed
};
/// While it exists, it shows other processes and threads that the writer `id` lives: find_checkpoint leaves the temporary directories
/// of a living writer alone. Makes CHECKPOINTS. Errors: usage if another writer of this id lives; the disk's.
class WriterLock {
 public:
  WriterLock(Io&, const std::string& checkpoints, std::string_view id);
  ~WriterLock();
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  Io& io_;
  std::string path_;
  std::unique_ptr<IoLock> lock_;
};

/// Writes and commits one checkpoint of this rank's tensors, and fills in manifest.files. `id` makes the temporary name unique among
/// writers. If step-N exists and verifies, it is kept when its checksums are the same; otherwise that is an error. If it does not verify,
/// it is moved aside first.
/// Errors  does_not_fit, bad_file from the disk (the temporary directory is left for the next sweep); bad_file if a
///         different valid step-N exists.
Committed commit_checkpoint(Io&, const std::string& checkpoints, std::string_view id, int rank, Manifest manifest,
                            std::span<const TensorToWrite> tensors);

/// The directory CHECKPOINTS/step-N.tmp-ID, in which a checkpoint is written.
std::string temporary_checkpoint(const std::string& checkpoints, std::string_view id, int64_t step);
/// The first half of commit_checkpoint: makes temporary_checkpoint anew, empty. Errors: the disk's.
void begin_checkpoint(Io&, const std::string& checkpoints, std::string_view id, int64_t step);
/// The second half: writes the manifest and commits. The manifest's files are already in temporary_checkpoint, whole and synced. Errors: as
/// commit_checkpoint.
Committed end_checkpoint(Io&, const std::string& checkpoints, std::string_view id, const Manifest&);

/// A checkpoint that is not whole, or not what its manifest says. Kind: bad_file.
class DoesNotVerify : public Error {
 public:
  template <class... Args>
  explicit DoesNotVerify(fmt::format_string<Args...> format, Args&&... args)
      : Error(ErrorKind::bad_file, format, std::forward<Args>(args)...) {}
};
/// The manifest of a checkpoint; its files are not checked. Errors: those of verify_checkpoint.
Manifest read_manifest(Io&, const std::string& directory);
/// Reads the manifest and checks size and CRC-32C of every file it names. Errors: DoesNotVerify naming the file and the
/// fact; the disk's and OtherVersion, neither of which says that the checkpoint is broken.
Manifest verify_checkpoint(Io&, const std::string& directory);

/// A checkpoint that verified.
struct FoundCheckpoint {
  std::string path;
  Manifest manifest;
};
/// What find_checkpoint found.
struct CheckpointSearch {
  std::optional<FoundCheckpoint> newest;  // the newest that verifies
  int num_broken = 0;                     // checkpoints newer than `newest`, which do not verify
  std::vector<std::string> notes;         // for people: what was removed, what did not verify and where it was moved
};
/// Removes what crashed writers left, but not what a living writer writes. Then takes the newest checkpoint that verifies. Newer ones
/// that do not verify are moved aside, but only if an older one verifies. If there is no such directory, nothing is found.
/// Errors: the disk's; OtherVersion. A checkpoint that cannot be read now, or not by this version, may be whole: then this throws, and
/// no checkpoint is passed over or moved.
CheckpointSearch find_checkpoint(Io&, const std::string& checkpoints);

/// Removes the oldest committed checkpoints until `keep` (at least 1) are left, but only if the newest verifies. Each is renamed, so that it
/// no longer counts as a checkpoint, before its files are deleted. Errors: the disk's.
void retire_checkpoints(Io&, const std::string& checkpoints, int keep, std::string_view id);

/// One rank's tensors in a verified checkpoint. The file is mapped from a real disk, and read whole from any other Io. Errors: bad_file; the
/// disk's.
class CheckpointData {
 public:
  CheckpointData(Io&, const std::string& directory, int rank);
  const Safetensors& tensors() const { return tensors_; }

 private:
  std::string held_;  // the file's bytes, if it is not mapped
  Safetensors tensors_;
};

}  // namespace tern
