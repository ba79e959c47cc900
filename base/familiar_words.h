#pragma once
// What other programs call things, and what they are called here: for "did you mean".

#include <string_view>

namespace tern {

/// "lr" -> "learning-rate"; "" where no such word is known. Dashes and underscores are one.
std::string_view familiar_option(std::string_view theirs);
/// "finetune" -> "adapt"; "" where no such word is known.
std::string_view familiar_verb(std::string_view theirs);

}  // namespace tern
