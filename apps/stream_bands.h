#pragma once
// Plans of streamed weights as verbs make them: the size of bands (rows of a matrix that are read at once), and of a prompt's chunks.

#include <cstdint>
#include <optional>

#include "infer/stream_plan.h"

namespace tern {

/// Long bands are read faster; these are the shortest that are taken.
inline constexpr BandSizes kShortestBands{.most = 128 << 10};

/// plan_stream with the longest bands whose ring takes no more than an eighth of the budget, or with the shortest; of a window with the longest that
/// fit. nullopt: not even the shortest fit.
std::optional<StreamPlan> stream_if_fits(const ModelDescription&, const InferenceNeeds&, const MemoryBudget&);

/// The tokens of a prompt's chunks with which the prompt and `tokens` further tokens read the fewest bytes: each chunk reads the weights again, but
/// larger chunks leave less memory for weights that stay. `chunk`: the answer if nothing fits.
int64_t chunk_of_fewest_bytes(const ModelDescription&, InferenceNeeds, const MemoryBudget&, int64_t prompt,
                              int64_t tokens, int64_t chunk);

}  // namespace tern
