#pragma once
// What all verbs that write a GGUF file do alike.

#include <string>

#include "formats/chat/template.h"
#include "formats/gguf/write.h"
#include "infer/load.h"

namespace tern {

/// The type that a choice of an option names: "q4_0" is Q4_0 of base/weight_types.def.
WeightType weight_type_of_choice(std::string name);
/// Before a weight is read. Errors  usage: `out` does not end with .gguf, or is there already.
void check_gguf_output(const std::string& out);
/// The model's configuration, vocabulary and chat templates. Says what a GGUF file has no place for. Errors  usage: what
/// GGUF cannot say of this model; an encoder.
GgufMetadata gguf_metadata(const ModelDescription&, const ChatTemplates&);

}  // namespace tern
