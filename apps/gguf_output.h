#pragma once
// What all verbs that write a GGUF file do alike.

#include <string>

#include "formats/chat/template.h"
#include "formats/chat/template_files.h"
#include "formats/gguf/write.h"
#include "infer/load.h"

namespace tern {

/// The type that an option's word names: "q4_0" is Q4_0 of base/weight_types.def.
WeightType weight_type_of_choice(std::string name);
/// Called before a weight is read. Errors  usage: `out` does not end with .gguf, or is there already.
void check_gguf_output(const std::string& out);
/// The model's configuration, vocabulary and chat templates as metadata. Tells the user what a GGUF file cannot hold.
/// Errors: usage: the model is an encoder, or has a part that GGUF cannot express.
GgufMetadata gguf_metadata(const ModelDescription&, const ChatTemplates&);

}  // namespace tern
