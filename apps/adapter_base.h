#pragma once
// Whether an adapter lies beside the model that it was trained on.

#include <string>

namespace tern {

/// Whether two names, as people give them to a command, are of one model: where both exist, that they are one file or directory;
/// else that their last parts are alike, so that a model which was moved is still the same. Of a snapshot in the Hugging Face
/// cache the last part is the repository's name.
bool names_one_model(const std::string&, const std::string&);
/// Warns in one line if adapter_config.json of the adapter (of a gated one: of one of its branches) in `dir` names another model than `model`,
/// as people name it to a command.
/// Errors: those of read_peft_config and read_gated_adapter.
void warn_of_other_base(const std::string& model, const std::string& dir);

}  // namespace tern
