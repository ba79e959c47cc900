#include <algorithm>

#include "base/crc32c.h"
#include "base/io.h"
#include "base/mapped_file.h"

namespace tern {

uint32_t file_crc32c(Io& io, const std::string& path) {
  if (&io != &real_io()) return crc32c(io.read(path));
  constexpr size_t kPiece = size_t{4} << 20;
  const MappedFile map(path);
  uint32_t crc = 0;
  for (size_t begin = 0; begin < map.size(); begin += kPiece) {
    const size_t count = std::min(kPiece, map.size() - begin);
    crc = crc32c(map.bytes().subspan(begin, count), crc);
    map.advise(MappedFile::Advice::dont_need, begin, count);
  }
  return crc;
}

}  // namespace tern
