#pragma once
// Checkpoints on disk: committed whole or invisible, checked when read.
//
//   CHECKPOINTS/writer-ID.lock                                        held while the writer ID lives
//   CHECKPOINTS/step-N.tmp-ID/{rank-R.safetensors, manifest.json}     being written
//   CHECKPOINTS/step-N/…                                              committed
//   CHECKPOINTS/step-N.broken-K/…                                     did not verify: moved aside, and tern never
//                                                                     deletes it
//
// Order of a commit: the data file and its sync; manifest.json and its sync; sync of the temporary directory; rename to
// step-N; sync of CHECKPOINTS. A crash before the rename leaves a temporary directory, which the next start sweeps, as no
// living writer holds its lock. A crash after the rename leaves a checkpoint whose every byte had reached the disk before
// it got its name.

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
std::optional<int64_t> checkpoint_step(std::string_view name);  // of "step-40" alone; not of .tmp- or .broken- names

enum class Committed : uint8_t {
  written,
  identical,  // step-N was there, verified and had the same files; nothing changed
};
/// A writer of checkpoints that lives: find_checkpoint leaves its temporary directories alone, in other processes and in
/// other threads of this one. Makes CHECKPOINTS. Errors: usage if another writer of this id lives; the disk's.
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

/// Writes and commits one checkpoint of this rank's tensors; manifest.files is filled in. `id` makes the temporary name
/// unique among writers.
/// If step-N exists and verifies: with the same checksums it is kept as it is, with others it is an error. If it does not
/// verify, it is moved aside first.
/// Errors  does_not_fit, bad_file from the disk (the temporary directory is left for the next sweep); bad_file if a
///         different valid step-N exists.
Committed commit_checkpoint(Io&, const std::string& checkpoints, std::string_view id, int rank, Manifest manifest,
                            std::span<const TensorToWrite> tensors);

/// A checkpoint that is not whole, or not what its manifest says. Kind: bad_file.
class DoesNotVerify : public Error {
 public:
  template <class... Args>
  explicit DoesNotVerify(fmt::format_string<Args...> format, Args&&... args)
      : Error(ErrorKind::bad_file, format, std::forward<Args>(args)...) {}
};
/// The manifest of a checkpoint; its files are not looked at. Errors as verify_checkpoint.
Manifest read_manifest(Io&, const std::string& directory);
/// Reads the manifest and checks size and CRC-32C of every file it names. Errors: DoesNotVerify naming the file and the
/// fact; the disk's and OtherVersion, which are no verdict on the checkpoint.
Manifest verify_checkpoint(Io&, const std::string& directory);

struct FoundCheckpoint {
  std::string path;
  Manifest manifest;
};
struct CheckpointSearch {
  std::optional<FoundCheckpoint> newest;  // that verifies
  int num_broken = 0;
  std::vector<std::string> notes;  // what was swept, what did not verify and where it went: for people
};
/// Sweeps what crashed writers left (what a living writer has under way stays), then takes the newest checkpoint that
/// verifies. Newer ones that do not verify are moved aside, but only if an older one does. No such directory: nothing found.
/// Errors: the disk's; OtherVersion. A checkpoint that cannot be read now, or by this version, may be whole: it is an
/// error, and nothing is passed over or moved.
CheckpointSearch find_checkpoint(Io&, const std::string& checkpoints);

/// Removes the oldest committed checkpoints beyond `keep` (at least 1), but only if the newest verifies; each becomes invisible
/// by a rename before its files are deleted.
void retire_checkpoints(Io&, const std::string& checkpoints, int keep, std::string_view id);

/// One rank's data of a verified checkpoint: mapped from a real disk, read whole from any other Io.
class CheckpointData {
 public:
  CheckpointData(Io&, const std::string& directory, int rank);
  const Safetensors& tensors() const { return tensors_; }

 private:
  std::string held_;  // of an Io that cannot be mapped
  Safetensors tensors_;
};

}  // namespace tern
