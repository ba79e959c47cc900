#pragma once
// What every verb that writes a Hugging Face directory does the same way.

#include <string>

#include "formats/chat/template.h"
#include "formats/chat/template_files.h"
#include "infer/load.h"

namespace tern {

class Io;

/// Before a weight is read. Errors  usage: `out` is a file, or a directory with something in it.
void check_hf_output(const std::string& out);
/// Everything beside weights and config.json: copied as it is, or made from what a GGUF file holds.
void write_companions(const ModelDescription&, const ChatTemplates&, const std::string& out, Io&);
/// Bytes of the files that lie in `directory` itself.
int64_t bytes_in(Io&, const std::string& directory);

}  // namespace tern
