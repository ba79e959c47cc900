#include "formats/data/data_files.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

bool is_text(const fs::path& file) {
  const std::string extension = file.extension().string();
  return extension == ".txt" || extension == ".text" || extension == ".md" || is_jsonl(file.native());
}

void add_files(const fs::path& folder, std::vector<std::string>& files) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const fs::path& path = at->path();
    if (path.filename().string().starts_with(".") || at->is_symlink(ignored)) continue;
    if (at->is_directory(ignored))
      add_files(path, files);
    else if (at->is_regular_file(ignored) && is_text(path))
      files.push_back(path.string());
  }
  if (error) throw Error(ErrorKind::bad_file, "{}: cannot be read: {}", folder.string(), error.message());
}

}  // namespace

bool is_jsonl(std::string_view path) { return path.ends_with(".jsonl") || path.ends_with(".ndjson"); }

std::vector<std::string> data_files(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw Error(ErrorKind::bad_file, "{}: no such file; expected text, JSONL, a token file or a folder", path);
  if (!fs::is_directory(path, ignored)) return {path};
  std::vector<std::string> files;
  add_files(path, files);
  std::ranges::sort(files);
  if (files.empty())
    throw Error(ErrorKind::bad_file, "{}: a folder without a text; expected files that end in .txt, .md or .jsonl",
                path);
  return files;
}

}  // namespace tern
