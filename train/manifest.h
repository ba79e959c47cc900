#pragma once
// manifest.json: what a checkpoint is made of. It is written last and carries its own checksum, so a checkpoint is whole or
// there is none.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tern {

struct CheckpointFile {
  std::string name;
  int64_t bytes = 0;
  uint32_t crc32c = 0;
  friend bool operator==(const CheckpointFile&, const CheckpointFile&) = default;
};

using Facts = std::vector<std::pair<std::string, std::string>>;  // in order

struct Manifest {
  int64_t step = 0;
  uint64_t samples = 0;  // the Feed's position
  Facts settings;        // what the run was asked for: compared on resume (settings.h)
  Facts made_by;         // version, instruction set, threads, multiplier: a change warns on resume
  std::vector<CheckpointFile> files;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// The manifest is whole but of another version of the format, which says nothing against the checkpoint. Kind: bad_file.
class OtherVersion : public Error {
 public:
  template <class... Args>
  explicit OtherVersion(fmt::format_string<Args...> format, Args&&... args)
      : Error(ErrorKind::bad_file, format, std::forward<Args>(args)...) {}
};

/// One JSON object on one line. Its first member is the CRC-32C of the whole text, taken with that checksum's eight
/// digits as zeros: any changed bit shows.
std::string manifest_text(const Manifest&);
/// Errors  bad_file: "PLACE: fact, expectation": wrong
///         checksum, missing or malformed member, a file
///         name that leaves the directory; OtherVersion.
Manifest parse_manifest(std::string_view text, std::string_view place);

}  // namespace tern
