#pragma once
// The error for results that are NaN or infinite, and the search for the tensor in a model's files that causes them.

#include <string>

#include "base/error.h"
#include "formats/safetensors/index.h"

namespace tern {

/// A model gave NaN or infinity where it should give a number: its weights hold such
/// values, or a computation with them left the range of its type. Kind: bad_file.
class NotFinite : public Error {
 public:
  template <class... Args>
  explicit NotFinite(fmt::format_string<Args...> format, Args&&... args)
      : Error(ErrorKind::bad_file, format, std::forward<Args>(args)...) {}
};

/// The first tensor, by name, that holds NaN or infinity, as a sentence for people: "FILE: tensor 'NAME' holds 3 values
/// that are not finite, the first at 17 of 1,024"; empty: none does. Reads all weights once, and gives back mapped pages.
std::string find_not_finite(const Weights&);
/// Errors: NotFinite, with the sentence of find_not_finite and the remedy. `path`: a
/// .safetensors file or the index of several; files of other kinds are not checked.
void require_finite(const std::string& path);

}  // namespace tern
