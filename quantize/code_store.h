#pragma once
// Codes of units that are done, on the disk: a run that was killed goes on after them, and a writer asks for them in any
// order. One safetensors file per unit: NAME (rows of a parameter), NAME.tables, and in its metadata what the codes
// depend on and their checksum.

#include <map>
#include <optional>
#include <string>

#include "base/io.h"
#include "model/coded_matrix.h"

namespace tern {

using UnitCodes = std::map<std::string, CodedMatrix>;  // by the parameter's name

class CodeStore {
 public:
  /// `settings`: a line that tells runs apart whose codes differ. The directory is made when a unit is written.
  CodeStore(Io& io, std::string directory, std::string settings)
      : io_(io), directory_(std::move(directory)), settings_(std::move(settings)) {}

  void write(int unit, uint32_t weights_crc32c, const UnitCodes&);
  /// The unit's codes; nothing: none were written, or, with a warning, they are damaged (a checksum). Errors  usage: they are of another run or
  /// other weights.
  std::optional<UnitCodes> read(int unit, uint32_t weights_crc32c) const;
  /// The codes of a unit that was written. Those of the unit asked for last stay in memory.
  const UnitCodes& of(int unit);
  const std::string& directory() const { return directory_; }
  void remove() { remove_all(io_, directory_); }

 private:
  std::string file_of(int unit) const;
  Io& io_;
  std::string directory_, settings_;
  int kept_unit_ = -1;
  UnitCodes kept_;
};

}  // namespace tern
