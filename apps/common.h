#pragma once
// What several verbs do alike: common options, the description of a model, output.

#include <cstdint>
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
/// Sets the number of compute threads to --threads, or to the CPUs that this process may use, and returns it. Warns if `ranks` ranks with --threads
/// each have more threads than there are CPUs (0 ranks: another process warns), and if the kernels in use are
/// slower than those that the processor could run, unless TERN_ISA asked for them. Errors: usage: TERN_ISA.
int apply_threads(const Options&, int64_t ranks = 1);
/// The value of --dtype, if it is given.
std::optional<DType> dtype_option(const Options&);
/// The value of --kv-dtype, if it is given and is not the type in which keys and values are computed. Errors: usage: it is wider.
std::optional<KvType> kv_option(const Options&, DType computed);
/// With --memory: its bytes without those of the program itself. Without: the free bytes without those by which the program will still
/// grow. Call it before anything large is allocated, as everything that is resident at the call counts as the program itself.
MemoryBudget memory_budget(const Options&);
/// The description of MODEL, with the adapter that --adapter names. Errors: those of describe_model and take_adapter.
ModelDescription described_model(const Options&);
/// Reads all weights and checks that they are finite. Errors: NotFinite, naming file and tensor.
void require_finite_weights(const ModelDescription&);
/// Refuses an encoder for a verb that needs next tokens. Errors  usage.
void refuse_encoder(const ModelDescription&, std::string_view verb);
void refuse_encoder(const ModelSpec&, std::string_view path, std::string_view verb);
/// Writes the notes of a model to standard error, one line each.
void tell_notes(const ModelDescription&);
void tell_notes(const std::vector<std::string>&);
/// Returns run(). Errors: those of run; if run throws NotFinite, and a tensor of the model's files holds such values, the error names that tensor.
template <class Run>
auto naming_bad_weights(const ModelDescription& model, const Run& run) {
  try {
    return run();
  } catch (const NotFinite&) {
    require_finite_weights(model);
    throw;
  }
}
/// Writes to standard output. Errors: does_not_fit: the reader is gone or the disk is full.
void print_out(std::string_view text);
void print_json(const Json&);

}  // namespace tern
