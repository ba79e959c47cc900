#pragma once
// Reads and writes the memories of a model's layers (adapt/input_memory.h).

#include <map>
#include <string>

#include "adapt/input_memory.h"

namespace tern {

class Io;
/// The memories of a model, by the name of the weight that the inputs multiply.
using InputMemories = std::map<std::string, InputMemory>;
/// Writes one safetensors file with a tensor NAME.protected or NAME.free, (rows, dim) in f64, for each memory. Errors: those of
/// write_safetensors.
void write_memories(const InputMemories&, const std::string& path, Io&);
/// Reads such a file. Errors: bad_file: it is another kind of file.
InputMemories read_memories(const std::string& path);

}  // namespace tern
