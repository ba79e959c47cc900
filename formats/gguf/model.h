#pragma once
// GGUF as a model: its metadata as a configuration, and back. A family is one row of the table in
// formats/gguf/families.cpp.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf/gguf.h"
#include "formats/hf/config.h"

namespace tern {

class GgufMetadata;  // formats/gguf/write.h

/// Whether a path names a GGUF file, by its ending.
bool is_gguf_path(std::string_view path);

/// The configuration that the file's metadata and tensors imply. Numbers kept as f32 are read as the shortest decimal
/// that gives them, so 1e-5 stays 1e-5. A table of rotary divisors (rope_freqs.weight) becomes the Llama 3 scaling that gives
/// the table, or, if none does, longrope with the table as `short_factor` and `long_factor`.
/// Errors  bad_file: "PATH: key 'K': …"; an architecture tern does not read; a file of several that is not the first.
HfConfig gguf_config(const Gguf&);
/// Writes a configuration as metadata. Errors  usage: what GGUF, or tern's writer, has no key for.
void add_gguf_config(GgufMetadata&, const HfConfig&);

}  // namespace tern
