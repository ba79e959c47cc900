#include "apps/gguf_output.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/text.h"
#include "formats/chat/template_files.h"
#include "formats/gguf/model.h"
#include "formats/gguf/vocabulary.h"
#include "model/gguf_slots.h"
#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

WeightType weight_type_of_choice(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const std::optional<WeightType> type = weight_type_from_name(name);
  TERN_CHECK(type, "no weight type '{}'", name);
  return *type;
}

void check_gguf_output(const std::string& out) {
  if (!is_gguf_path(out))
    throw Error(ErrorKind::usage, "--output {}: a GGUF file's name ends with .gguf, and is known by it", out);
  if (real_io().stat(out))
    throw Error(ErrorKind::usage, "--output {}: is there already; name a new file, tern does not write over a model",
                out);
}

GgufMetadata gguf_metadata(const ModelDescription& model, const ChatTemplates& templates) {
  GgufMetadata metadata;
  add_gguf_config(metadata, model.config);
  const std::filesystem::path given(model.dir.path);
  metadata.add("general.name", make_printable((given.has_filename() ? given : given.parent_path()).stem().string()));
  if (model.tokenizer)
    for (const std::string& note : add_gguf_vocabulary(metadata, *model.tokenizer, model.spec.vocab))
      log_info("{}", note);
  else
    metadata.add("tokenizer.ggml.model", "none");
  for (const auto& [name, source] : templates.by_name)
    metadata.add(name == "default" ? "tokenizer.chat_template" : "tokenizer.chat_template." + name, source.text);
  for (const ParameterInfo& info : parameters(model.spec)) gguf_slots(model.spec, info);  // throws
  return metadata;
}

}  // namespace tern
