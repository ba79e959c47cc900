#pragma once
// Memories of inputs on the disk, by the name of the weight that the inputs multiply.

#include <map>
#include <string>

#include "adapt/input_memory.h"

namespace tern {

class Io;
using InputMemories = std::map<std::string, InputMemory>;

/// One safetensors file: NAME.protected or NAME.free, (rows, dim) in f64. Errors: those of write_safetensors.
void write_memories(const InputMemories&, const std::string& path, Io&);
/// Errors: bad_file: not such a file.
InputMemories read_memories(const std::string& path);

}  // namespace tern
