#pragma once
// What several verbs do the same way.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/json.h"
#include "base/kv_type.h"
#include "base/progress.h"
#include "formats/data/token_data.h"
#include "model/model_files.h"
#include "model/not_finite.h"

namespace tern {

class Options;
struct InferenceFit;
struct InferenceNeeds;
struct MemoryBudget;
struct MemoryFacts;
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
/// Where weights are read from, and its name: "mapped", "copied", "coded", or "packed" where the kernels of this machine, or the
/// type in the file, want them in another layout.
struct WeightsPlace {
  WeightsIn in;
  std::string_view name;
};
/// Tokens to be written from which on `--weights auto` copies what could be read in place.
inline constexpr int64_t kTokensToCopyFor = 256;
/// Whether copying the weights to the program's own memory pays for the slower start: where kTokensToCopyFor tokens or more
/// are to be written (measured: see --weights), there are huge pages, and the copy fits beside the page cache.
bool copy_pays(int64_t tokens, const MemoryFacts&, const InferenceFit&);
/// --weights; auto for verbs that have no such option.
std::string weights_option(const Options&);
/// What stays coded as weights_option says; for auto as coded_to_fit says. Errors: usage: --weights mapped where coded weights
/// cannot
/// stay coded; those of coded_for_integers.
CodedBytes stays_coded(const Options&, const ModelDescription&, const InferenceNeeds&, const MemoryBudget&);
/// Whether --arithmetic is int8, for verbs that have it.
bool in_integers(const Options&);
/// All that can stay coded, which --arithmetic int8 multiplies as it lies. Errors: usage: the files hold no coded weights, or none
/// that can stay so.
CodedBytes coded_for_integers(const ModelDescription&);
/// Where weights are read from by weights_option; "coded" if any stay coded; auto asks copy_pays for `tokens` tokens to be
/// written (in a chat its context). Errors: usage: --weights asks for what packed weights cannot do.
WeightsPlace weights_in(const Options&, const ModelDescription&, const InferenceFit&, int64_t tokens,
                        const CodedBytes& coded);
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
/// A whole file, "-" for standard input. Errors: bad_file.
std::string read_text(const std::string& path);
/// The first `most` tokens of a text, without what a tokenizer adds: of a long text no more is encoded than they need.
/// `whole`: whether those are all.
std::vector<int32_t> encode_at_most(const Tokenizer&, std::string_view text, size_t most, bool& whole);
/// Tells where the first byte is that is not valid UTF-8, as the tokenizer reads it as U+FFFD.
void tell_invalid_utf8(std::string_view text);
/// The progress line of packing a text, for a PackOptions; it appears only if packing takes a second. Packing stops
/// when a stop is requested.
class PackLine {
 public:
  PackOptions options() { return {.progress = &PackLine::update, .context = this}; }
  void finish();

 private:
  static bool update(void* self, int64_t bytes_done, int64_t bytes_total);
  int64_t begin_ns_ = real_clock().now_ns(), total_ = 0;
  std::unique_ptr<Progress> line_;
};
/// To standard output. Errors: does_not_fit if the reader is gone or the disk full.
void print_out(std::string_view text);
void print_json(const Json&);

}  // namespace tern
