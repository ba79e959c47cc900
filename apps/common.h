#pragma once
// What several verbs do the same way.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "base/kv_type.h"
#include "model/not_finite.h"

namespace tern {

class Options;
struct MemoryBudget;
struct ModelDescription;
struct ModelSpec;

/// The day in UTC, as 2026-11-22.
std::string today();
/// --threads, or what this process may use. Returns the number. Warns where the kernels are slower ones than the
/// processor has, unless TERN_ISA asked for them. Errors: usage, of TERN_ISA.
int apply_threads(const Options&);
/// --dtype if given.
std::optional<DType> dtype_option(const Options&);
/// --kv-dtype if given and another type than keys and values are computed in. Errors: usage: a wider one.
std::optional<KvType> kv_option(const Options&, DType computed);
/// --memory or what is free, less the program itself. Call before anything large is allocated: what is resident then
/// counts as the program itself.
MemoryBudget memory_budget(const Options&);
/// MODEL with the adapter that --adapter names. Errors: those of describe_model and take_adapter.
ModelDescription described_model(const Options&);
/// Errors: NotFinite, naming file and tensor.
void require_finite_weights(const ModelDescription&);
/// Errors  usage: an encoder, where a verb needs a next token.
void refuse_encoder(const ModelDescription&, std::string_view verb);
void refuse_encoder(const ModelSpec&, std::string_view path, std::string_view verb);
/// The notes of a model to standard error, one line each.
void tell_notes(const ModelDescription&);
void tell_notes(const std::vector<std::string>&);
/// Returns run(). Errors: its own; a NotFinite becomes one that names the tensor of the model's files, if one holds
/// such values.
template <class Run>
auto naming_bad_weights(const ModelDescription& model, const Run& run) {
  try {
    return run();
  } catch (const NotFinite&) {
    require_finite_weights(model);
    throw;
  }
}
/// To standard output. Errors: does_not_fit if the reader is gone or the disk full.
void print_out(std::string_view text);
void print_json(const Json&);

}  // namespace tern
