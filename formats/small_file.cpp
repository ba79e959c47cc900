#include "formats/small_file.h"

#include "base/error.h"
#include "base/mapped_file.h"

namespace tern {

std::string read_text_file(const std::string& path, size_t max_bytes) {
  const MappedFile file(path);
  if (file.size() > max_bytes)
    throw Error(ErrorKind::bad_file, "{}: {} bytes, expected at most {}; is this the right file?", path, file.size(),
                max_bytes);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.size()};
}

}  // namespace tern
