#pragma once
// A folder for files that no other user may see.

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/io.h"

namespace tern {

/// Makes a folder among the system's temporary files; the destructor removes it with everything in it. Files that are still
/// mapped stay readable. Errors: does_not_fit, bad_file.
struct PrivateFolder {
  std::string path = (std::filesystem::temp_directory_path() / "tern-XXXXXX").string();
  PrivateFolder() {
    if (!::mkdtemp(path.data())) throw_io_error("create", path, errno);
  }
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
};

}  // namespace tern
