#include "base/output_place.h"

#include <filesystem>

#include "base/error.h"

namespace tern {

void require_output_place(std::string_view option, const std::string& path, std::string_view what,
                          const std::function<bool(const std::string&)>& is_one, Io& io) {
  if (path.empty()) return;
  const auto folder = io.stat(parent_path(path)), file = io.stat(path);
  if (!folder || !folder->is_directory)
    throw Error(ErrorKind::usage, "{} {}: there is no folder {}; make it, or choose another", option, path,
                parent_path(path));
  if (file && file->is_directory) throw Error(ErrorKind::usage, "{} {}: is a folder, expected a file", option, path);
  std::error_code ignored;
  if (file && !std::filesystem::is_other(path, ignored) && !is_one(io.read(path)))
    throw Error(ErrorKind::usage, "{} {}: holds something else than {}; choose another file", option, path, what);
}

}  // namespace tern
