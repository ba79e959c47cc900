#pragma once
// manifest.json, which says what a checkpoint is made of. It is written last and has its own checksum, so a checkpoint with a valid manifest
// is whole.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tern {

/// A file of a checkpoint, as it was written.
struct CheckpointFile {
  std::string name;
  int64_t bytes = 0;
  uint32_t crc32c = 0;
  friend bool operator==(const CheckpointFile&, const CheckpointFile&) = default;
};

/// Names and values, in order.
using Facts = std::vector<std::pair<std::string, std::string>>;

struct Manifest {
  int64_t step = 0;      // steps done
  uint64_t samples = 0;  // samples seen; the Feed's next sample has this number
  Facts settings;        // what the run was asked for; compared on resume (compare_settings)
  Facts made_by;         // version, instruction set, threads, groups of ranks, multiplier; noted on resume if different
  std::vector<CheckpointFile> files;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// Thrown for a manifest that is whole but of another version of the format. The checkpoint may be good. Kind: bad_file.
class OtherVersion : public Error {
 public:
  template <class... Args>
  explicit OtherVersion(fmt::format_string<Args...> format, Args&&... args)
      : Error(ErrorKind::bad_file, format, std::forward<Args>(args)...) {}
};

/// One JSON object on one line. Its first member is the CRC-32C of the whole text, computed with zeros in place of that checksum's eight
/// digits. So any changed bit shows.
std::string manifest_text(const Manifest&);
/// Reads such a text. `place` names it in errors.
/// Errors  bad_file: a wrong checksum, a missing or malformed member, a file name that leaves the directory; OtherVersion.
Manifest parse_manifest(std::string_view text, std::string_view place);

}  // namespace tern
