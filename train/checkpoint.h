#pragma once
// Checkpoints on disk: committed whole or invisible, checked when read (PRODUCT §5.3).
//
//   CHECKPOINTS/step-N.tmp-ID/{rank-0.safetensors, manifest.json}     being written
//   CHECKPOINTS/step-N/…                                              committed
//   CHECKPOINTS/step-N.broken-K/…                                     did not verify; moved aside, never deleted by
//   tern
//
// Order of a commit: the data file and its sync; manifest.json and its sync; sync of the temporary directory; rename to
// step-N; sync of CHECKPOINTS. A crash before the rename leaves a temporary directory, which the next start sweeps;
// after it, a checkpoint whose every byte had reached the disk before it got its name.

#include <cstdint>
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

inline constexpr std::string_view kRankFile = "rank-0.safetensors";
std::string checkpoint_name(int64_t step);                      // "step-40"
std::optional<int64_t> checkpoint_step(std::string_view name);  // of "step-40" alone; not of .tmp- or .broken- names

enum class Committed : uint8_t {
  written,
  identical,  // step-N was there, verified and had the same files; nothing changed
};
/// Writes and commits one checkpoint; manifest.files is filled in. `id` makes the temporary name unique among writers.
/// If step-N is there: same hashes, it is kept as it is; other hashes, an error; if it does not verify, it is moved
/// aside first. Errors  does_not_fit, bad_file from the disk (the temporary directory is left for the next sweep);
/// bad_file if a different
///         valid step-N exists.
Committed commit_checkpoint(Io&, const std::string& checkpoints, std::string_view id, Manifest manifest,
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
/// Sweeps what crashed writers left, then takes the newest checkpoint that verifies. Newer ones that do not are moved
/// aside; if none verifies, they stay where they are, for the error that follows. No such directory: nothing found.
/// Errors: the disk's; OtherVersion. A checkpoint that cannot be read now, or by this version, may be whole, so nothing
/// is passed over or moved for that.
CheckpointSearch find_checkpoint(Io&, const std::string& checkpoints);

/// Removes the oldest committed checkpoints beyond `keep` (at least 1), but only below one that verifies; each becomes
/// invisible by a rename before its files go.
void retire_checkpoints(Io&, const std::string& checkpoints, int keep, std::string_view id);

/// The data of a verified checkpoint: mapped from a real disk, read whole from any other Io.
class CheckpointData {
 public:
  CheckpointData(Io&, const std::string& directory);
  const Safetensors& tensors() const { return tensors_; }

 private:
  std::string held_;  // of an Io that cannot be mapped
  Safetensors tensors_;
};

}  // namespace tern
