#pragma once
// Where a verb reads a model's weights from: in place, copied, packed, or as they are coded (--weights, --arithmetic).

#include <cstdint>
#include <string>
#include <string_view>

#include "model/model_files.h"

namespace tern {

class Options;
struct InferenceFit;
struct InferenceNeeds;
struct MemoryBudget;
struct MemoryFacts;
struct ModelDescription;

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
/// What stays coded as weights_option says; for auto as coded_to_fit says. Errors: usage: --weights mapped where coded
/// weights cannot stay coded; those of coded_for_integers.
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

}  // namespace tern
