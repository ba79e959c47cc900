#pragma once
// Decides how a verb keeps a model's weights (--weights, --arithmetic): in place in the mapped file, copied, packed, or coded as in the file.

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

/// How weights are kept, and a name for it: "mapped", "copied", "coded", or "packed" if the kernels here need another layout than the file's.
struct WeightsPlace {
  WeightsIn in;
  std::string_view name;
};
/// From so many tokens on, `--weights auto` copies weights that could be read in place.
inline constexpr int64_t kTokensToCopyFor = 256;
/// Whether a copy of the weights in the program's own memory saves more time than it takes: kTokensToCopyFor tokens or more
/// will be written (measured: see --weights), there are huge pages, and the copy fits beside the page cache.
bool copy_pays(int64_t tokens, const MemoryFacts&, const InferenceFit&);
/// The value of --weights; auto for verbs that have no such option.
std::string weights_option(const Options&);
/// The matrices that stay coded. With --arithmetic int8: those of coded_for_integers. Else by weights_option: mapped, all that
/// can; copied, none; auto, those of coded_to_fit. Errors: usage: --weights copied with --arithmetic int8; --weights mapped,
/// and none of the file's coded weights can stay coded; those of coded_for_integers.
CodedBytes stays_coded(const Options&, const ModelDescription&, const InferenceNeeds&, const MemoryBudget&);
/// Whether --arithmetic is int8, for verbs that have it.
bool in_integers(const Options&);
/// All matrices that can stay coded; --arithmetic int8 multiplies them without decoding. Errors: usage: the files have no
/// coded weights, or none that can stay coded.
CodedBytes coded_for_integers(const ModelDescription&);
/// How weights are kept: "coded" if `coded` is not empty; else "packed" if the file holds coded weights, or weights that the
/// kernels cannot read in place; else "mapped" or "copied" by weights_option, under auto "copied" if copy_pays for `tokens`:
/// the tokens to be written, or in a chat its context. Errors: usage: --weights mapped or copied, and the file holds uncoded
/// weights that the kernels cannot read in place.
WeightsPlace weights_in(const Options&, const ModelDescription&, const InferenceFit&, int64_t tokens,
                        const CodedBytes& coded);

}  // namespace tern
