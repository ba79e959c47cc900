#pragma once
// Models in several GGUF files, as llama.cpp's gguf-split makes and reads them: NAME-00001-of-00003.gguf and so on. The
// first file has the metadata; each has split.no (from 0), split.count and split.tensors.count (of all files).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tern {

inline constexpr uint64_t kGgufMaxParts = 65'535;  // split.no and split.count have 16 bits

/// PREFIX-00002-of-00003.gguf for number 2 of 3; numbers from 1.
std::string gguf_part_path(std::string_view prefix, int number, int count);
/// The prefix of such a path; nothing: it is not called as part `number` of `count`.
std::optional<std::string> gguf_part_prefix(std::string_view path, int number, int count);

}  // namespace tern
