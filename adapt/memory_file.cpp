#include "adapt/memory_file.h"

#include "adapt/numbers_file.h"
#include "base/error.h"

namespace tern {
namespace {

constexpr std::string_view kProtected = ".protected", kFree = ".free";

}  // namespace

void write_memories(const InputMemories& memories, const std::string& path, Io& io) {
  NamedMatrices matrices;
  for (const auto& [name, m] : memories)
    matrices[name + std::string(m.keeps_free ? kFree : kProtected)] = {m.dim, m.rows};
  write_matrices(matrices, path, io);
}

InputMemories read_memories(const std::string& path) {
  InputMemories memories;
  for (auto& [name, m] : read_matrices(path)) {
    const bool is_free = name.ends_with(kFree);
    if (!is_free && !name.ends_with(kProtected))
      throw Error(ErrorKind::bad_file, "{}: tensor '{}' is no memory of inputs, expected NAME.protected or NAME.free",
                  path, name);
    memories[name.substr(0, name.size() - (is_free ? kFree : kProtected).size())] = {m.width, is_free,
                                                                                     std::move(m.numbers)};
  }
  return memories;
}

}  // namespace tern
