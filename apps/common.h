#pragma once
// What several verbs do the same way.

#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/json.h"

namespace tern {

class Options;
struct ModelDescription;

/// --threads, or what this process may use. Returns the number.
int apply_threads(const Options&);
/// --dtype if given.
std::optional<DType> dtype_option(const Options&);
/// --memory, or what is free: bytes and where the figure comes from.
struct MemoryBudget {
  int64_t bytes;
  std::string source;
};
MemoryBudget memory_budget(const Options&);
/// The notes of a model to standard error, one line each.
void tell_notes(const ModelDescription&);
/// A whole file, "-" for standard input. Errors: bad_file.
std::string read_text(const std::string& path);
/// Tells where the first byte is that is not UTF-8 and that the tokenizer therefore reads as U+FFFD.
void tell_invalid_utf8(std::string_view text);
/// To standard output. Errors: does_not_fit if the reader is gone or the disk full.
void print_out(std::string_view text);
void print_json(const Json&);

}  // namespace tern
