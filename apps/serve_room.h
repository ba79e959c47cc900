#pragma once
// The memory of a server: what each model is given room for, and the weights that leave it that.

#include <string>
#include <vector>

#include "apps/inference_weights.h"
#include "infer/load.h"

namespace tern {

class Options;
class SpeculationChoice;
struct OfferedVectors;   // apps/serve_offer.h
struct ServiceSettings;  // serve/service.h

/// Of an encoder no keys and values.
struct Room {
  InferenceNeeds needs;
  int64_t chunk = 0;
  WeightsChoice weights;
  int64_t bytes() const { return weights.peak() + weights.fit.beside; }
};

/// As many sequences of the chosen context as memory has pages for; where weights stream, as leave room for those.
/// Errors: does_not_fit; usage: a context beyond the model's.
Room room_for_texts(const Options&, const ModelDescription&, int64_t longest_text, const MemoryBudget&,
                    const SpeculationChoice&);
/// Errors: does_not_fit; usage: none are made, or not with these options.
Room room_for_vectors(const Options&, const ModelDescription&, const OfferedVectors&, const MemoryBudget&);
/// The least that a model takes which has its weights in memory, in the form that they would have with all of the budget: of
/// one that writes, keys and values for one text of --context, else of a short one.
int64_t least_room(const Options&, const ModelDescription&, const OfferedVectors&, const MemoryBudget&,
                   const SpeculationChoice&);

/// What memory is left beside requests that are being read, answers that are held whole, and grammars of answers.
MemoryBudget budget_beside_requests(const Options&, bool writes, ServiceSettings&);

}  // namespace tern
