#pragma once
// The memory of a server: how many sequences a model has room for, and how its weights are kept to leave that room.

#include <string>
#include <vector>

#include "apps/inference_weights.h"
#include "infer/load.h"

namespace tern {

class Options;
class SpeculationChoice;
struct OfferedVectors;   // apps/serve_offer.h
struct ServiceSettings;  // serve/service.h

/// The room of one model. An encoder has no keys and values.
struct Room {
  InferenceNeeds needs;
  int64_t chunk = 0;
  WeightsChoice weights;
  int64_t bytes() const { return weights.peak() + weights.fit.beside; }
};
/// The room of a model that writes texts: for as many sequences of the chosen context as fit in memory (if weights stream:
/// as many as streams_well allows), but at least one and at most --max-running. `longest_text`: the most tokens of a text that
/// becomes a vector; 0: it makes no vectors. Errors: does_not_fit; usage: the model allows less than --context.
Room room_for_texts(const Options&, const ModelDescription&, int64_t longest_text, const MemoryBudget&,
                    const SpeculationChoice&);
/// The room of a model that makes vectors only. Errors: does_not_fit; usage: it makes none, or not with these options.
Room room_for_vectors(const Options&, const ModelDescription&, const OfferedVectors&, const MemoryBudget&);
/// The least bytes that a model takes with its weights in memory, in the form that they would have with the whole budget. A
/// model that writes has keys and values for one text of --context tokens; without --context, for one short text.
int64_t least_room(const Options&, const ModelDescription&, const OfferedVectors&, const MemoryBudget&,
                   const SpeculationChoice&);

/// The memory that is left beside requests that are being read, whole answers, and grammars of answers. Lowers the limits of
/// answers and grammars in the settings to a part of the memory.
MemoryBudget budget_beside_requests(const Options&, bool writes, ServiceSettings&);

}  // namespace tern
