#pragma once
// Where tests find the project's own files: golden files, examples, pages. One small source (tests/source_dir.cpp) holds the path,
// so that a compiler cache serves all other sources to every clone, and CMake can join them.

#include <string>

namespace tern {

/// The project's folder, absolute, without a slash at its end.
std::string source_dir();

}  // namespace tern
