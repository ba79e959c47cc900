#pragma once
// What all verbs that write a Hugging Face directory do alike.

#include <string>

#include "formats/chat/template.h"
#include "formats/chat/template_files.h"
#include "infer/load.h"

namespace tern {

class Io;

/// Called before a weight is read. Errors  usage: `out` is a file, or a directory that is not empty.
void check_hf_output(const std::string& out);
/// Writes all files but weights and config.json: copies of the model's files, or files made from what a GGUF file holds. Errors: the disk's.
void write_companions(const ModelDescription&, const ChatTemplates&, const std::string& out, Io&);
/// The bytes of the files in `directory`, without its subdirectories.
int64_t bytes_in(Io&, const std::string& directory);

}  // namespace tern
