#pragma once
// Names of options and verbs in other programs, with tern's names for them; for "did you mean".

#include <string_view>

namespace tern {

/// tern's name for another program's option: "lr" -> "learning-rate"; "" if `theirs` is not known. '-' equals '_'.
std::string_view familiar_option(std::string_view theirs);
/// tern's name for another program's verb: "finetune" -> "adapt"; "" if `theirs` is not known.
std::string_view familiar_verb(std::string_view theirs);

}  // namespace tern
