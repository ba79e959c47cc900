#include "infer/embedding.h"

#include <algorithm>

#include "base/error.h"
#include "model/not_finite.h"

namespace tern {

void embed_texts(const ModelSpec& spec, const ModelWeights& weights, const Linear* pooler,
                 std::span<const std::vector<int32_t>> texts, const EmbeddingSettings& settings, Arena& arena,
                 const VectorSink& sink) {
  size_t longest = 1;
  for (const auto& ids : texts) longest = std::max(longest, ids.size());
  Embedder embedder(spec, weights, pooler, static_cast<int64_t>(longest), settings, arena);
  const auto batch = static_cast<size_t>(texts_at_a_time(spec, settings));
  for (size_t first = 0; first < texts.size(); first += batch) {
    for (const auto& ids : texts.subspan(first, std::min(batch, texts.size() - first))) embedder.submit(ids);
    std::vector<float> out;
    out.reserve(std::min(batch, texts.size() - first) * static_cast<size_t>(spec.width));
    for (const EmbeddingEvent& event : embedder.step()) {
      if (event.error)
        throw NotFinite(
            "embed: the vector of text {} of {} holds NaN or infinity; what the model computes leaves the range of {}",
            event.text + 1, texts.size(), name_of(embed_of(weights).tokens.dtype()));
      out.insert(out.end(), event.vector.begin(), event.vector.end());
    }
    const size_t done = first + out.size() / static_cast<size_t>(spec.width);
    if (!sink(static_cast<int64_t>(first), out))
      throw Error(ErrorKind::interrupted, "embed: stopped on request after {} of {} texts", done, texts.size());
  }
}

}  // namespace tern
