#include "model/weights.h"

namespace tern {

EmbedWeights& embed_of(ModelWeights& w) { return std::get<EmbedWeights>(w.units.front()); }
const EmbedWeights& embed_of(const ModelWeights& w) { return std::get<EmbedWeights>(w.units.front()); }
HeadWeights& head_of(ModelWeights& w) { return std::get<HeadWeights>(w.units.back()); }
const HeadWeights& head_of(const ModelWeights& w) { return std::get<HeadWeights>(w.units.back()); }

}  // namespace tern
