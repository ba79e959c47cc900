#include "apps/hf_output.h"

#include "base/error.h"
#include "base/io.h"
#include "formats/chat/template_files.h"
#include "formats/gguf/model.h"

namespace tern {

void write_companions(const ModelDescription& model, const ChatTemplates& templates, const std::string& out, Io& io) {
  if (model.dir.is_gguf()) {
    if (model.tokenizer) model.tokenizer->save(out, io);
    for (const auto& [name, source] : templates.by_name) {
      const bool main = name == "default";
      const std::string folder = main ? out : join_path(out, "additional_chat_templates");
      make_dirs(io, folder);
      write_file_atomically(io, join_path(folder, (main ? "chat_template" : name) + ".jinja"), source.text);
    }
    return;
  }
  std::vector<std::string> files = model.dir.tokenizer_files;
  if (!model.dir.generation_config.empty()) files.push_back(model.dir.generation_config);
  for (const std::string& file : files) write_file_atomically(io, join_path(out, file_name(file)), io.read(file));
  const std::string more = join_path(model.dir.path, "additional_chat_templates");
  if (!io.stat(more)) return;
  make_dirs(io, join_path(out, "additional_chat_templates"));
  for (const std::string& name : io.list(more))
    write_file_atomically(io, join_path(join_path(out, "additional_chat_templates"), name),
                          io.read(join_path(more, name)));
}

void check_hf_output(const std::string& out) {
  if (is_gguf_path(out))
    throw Error(ErrorKind::usage,
                "--output {}: a directory is written here, and this is the name of a file; name a directory ('tern "
                "export --format gguf' makes a file of it)",
                out);
  const auto info = real_io().stat(out);
  if (info && !info->is_directory)
    throw Error(ErrorKind::usage, "--output {}: is a file; name a new directory (a .gguf file: --format gguf)", out);
  if (info && !real_io().list(out).empty())
    throw Error(ErrorKind::usage, "--output {}: not empty; name a new directory, tern does not write over a model",
                out);
}

int64_t bytes_in(Io& io, const std::string& directory) {
  int64_t bytes = 0;
  for (const std::string& name : io.list(directory))
    if (const auto info = io.stat(join_path(directory, name)); info && !info->is_directory) bytes += info->size_bytes;
  return bytes;
}

}  // namespace tern
