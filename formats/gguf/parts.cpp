#include "formats/gguf/parts.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formats/gguf/gguf.h"

namespace tern {
namespace {

constexpr std::string_view kGgufEnding = ".gguf";

}  // namespace

std::string gguf_part_path(std::string_view prefix, int number, int count) {
  return fmt::format("{}-{:05}-of-{:05}{}", prefix, number, count, kGgufEnding);
}

std::optional<std::string> gguf_part_prefix(std::string_view path, int number, int count) {
  const std::string ending = gguf_part_path("", number, count);
  if (!path.ends_with(ending) || path.size() == ending.size()) return std::nullopt;
  return std::string(path.substr(0, path.size() - ending.size()));
}

// llama.cpp's rules: the file that is named is the first, called so; the others lie beside it.
void Gguf::read_parts() {
  const auto said = find("split.count"), own_number = find("split.no");
  if (!said || said->as_u64() < 2 || (own_number && own_number->as_u64() != 0)) return;
  const uint64_t count = said->as_u64();
  const auto prefix = count <= kGgufMaxParts ? gguf_part_prefix(path(), 1, static_cast<int>(count)) : std::nullopt;
  if (!prefix)
    throw Error(
        ErrorKind::bad_file,
        "{}: key 'split.count': the first of {} files, which are called NAME-00001-of-{:05}.gguf and so on and lie "
        "in one directory; give it that name",
        path(), count, count);
  for (int n = 2; n <= static_cast<int>(count); ++n) {
    Gguf part(gguf_part_path(*prefix, n, static_cast<int>(count)));
    const auto number = part.find("split.no"), of = part.find("split.count");
    if (!number || number->as_u64() != static_cast<uint64_t>(n - 1) || !of || of->as_u64() != count)
      throw Error(ErrorKind::bad_file, "{}: split.no {} and split.count {}, its name says {} and {}", part.path(),
                  number ? std::to_string(number->as_u64()) : "missing", of ? std::to_string(of->as_u64()) : "missing",
                  n - 1, count);
    tensors_.insert(tensors_.end(), part.tensors_.begin(), part.tensors_.end());
    parts_.push_back(std::move(part));
    if (tensors_.size() > kGgufMaxTensors)
      throw Error(ErrorKind::bad_file, "{}: more than {} tensors in its files", path(), kGgufMaxTensors);
  }
  if (const auto all = find("split.tensors.count"); all && all->as_u64() != tensors_.size())
    throw Error(ErrorKind::bad_file, "{}: key 'split.tensors.count': {}, the {} files have {}", path(), all->as_u64(),
                count, tensors_.size());
  if (const GgufTensor* twice = index_tensors())
    throw Error(ErrorKind::bad_file, "{}: tensor '{}' stands in two of its {} files", path(), twice->name, count);
}

}  // namespace tern
