#include "apps/serve_room.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/common.h"
#include "apps/serve_offer.h"
#include "apps/speculation_options.h"
#include "apps/weights_options.h"
#include "base/error.h"
#include "base/options.h"
#include "base/units.h"
#include "serve/service.h"

namespace tern {
namespace {

constexpr int64_t kShortContext = 512;

// Of one sequence.
InferenceNeeds needs_of_texts(const Options& options, const ModelDescription& model, int64_t longest_text,
                              const SpeculationChoice& speculation, int64_t context) {
  const int64_t rows = options.integer("max-running") + speculation.budget();
  return {.context = context,
          .sequences = 1,
          .page_tokens = options.integer("page"),
          .iteration_tokens = std::max(std::min(options.integer("chunk"), context) + rows, longest_text),
          .logit_rows = rows,
          .adapters = model.beside,
          .kv = kv_option(options, model.dtype),
          .in_integers = in_integers(options)};
}

}  // namespace

Room room_for_texts(const Options& options, const ModelDescription& model, int64_t longest_text,
                    const MemoryBudget& budget, const SpeculationChoice& speculation) {
  const int64_t running = options.integer("max-running");
  Room room{.needs = {}, .chunk = options.integer("chunk"), .weights = {}};
  const auto needs_of = [&](int64_t context) {
    return needs_of_texts(options, model, longest_text, speculation, context);
  };
  InferenceNeeds& n = room.needs;
  n = needs_of(choose_context(options, model, budget, needs_of));
  room.weights = choose_weights(options, model, n, budget);
  const auto suits = [&] {
    if (room.weights.stream) return streams_well(model, n, budget);
    return inference_fit(model.spec, model.dtype, n, room.weights.coded).total() <= budget.bytes;
  };
  int64_t enough = 1, too_many = running + 1;
  while (too_many - enough > 1) {
    n.sequences = (enough + too_many) / 2;
    (suits() ? enough : too_many) = n.sequences;
  }
  n.sequences = enough;
  if (enough > 1) room.weights = choose_weights(options, model, n, budget);
  room.chunk = std::min(room.chunk, n.context);
  return room;
}

Room room_for_vectors(const Options& options, const ModelDescription& model, const OfferedVectors& vectors,
                      const MemoryBudget& budget) {
  if (vectors.longest == 0)
    throw Error(ErrorKind::usage, "{} is an encoder, and {}; nothing is left to serve", model.dir.path,
                vectors.why_none);
  if (in_integers(options))
    throw Error(ErrorKind::usage,
                "--arithmetic int8: {} is an encoder, whose vectors are made of decoded weights; leave it out",
                model.dir.path);
  const std::vector<std::vector<int32_t>> longest_text(1, std::vector<int32_t>(static_cast<size_t>(vectors.longest)));
  Room room;
  room.weights = choose_weights_to_embed(options, model, longest_text, vectors.settings, 0, budget);
  return room;
}

int64_t least_room(const Options& options, const ModelDescription& model, const OfferedVectors& vectors,
                   const MemoryBudget& budget, const SpeculationChoice& speculation) {
  if (!model.spec.predicts) {
    const Room room = room_for_vectors(options, model, vectors, budget);
    if (!room.weights.stream) return room.bytes();
    throw Error(ErrorKind::does_not_fit,
                "{}: its weights would have to stream, and only a model that is served alone does that",
                model.dir.path);
  }
  const int64_t context =
      options.has("context") ? options.integer("context") : std::min(model_context(model), kShortContext);
  const InferenceNeeds needs = needs_of_texts(options, model, vectors.longest, speculation, context);
  return inference_fit(model.spec, model.dtype, needs, stays_coded(options, model, needs, budget)).total();
}

MemoryBudget budget_beside_requests(const Options& options, bool writes, ServiceSettings& settings) {
  MemoryBudget budget = memory_budget(options);
  budget.bytes -= settings.http.bodies_bytes;
  if (budget.program >= 0) budget.program += settings.http.bodies_bytes;
  if (writes) {
    const int64_t most = std::max<int64_t>(0, budget.bytes / 32);
    for (int64_t* held : {&settings.rules.answers_bytes, &settings.rules.grammars_bytes}) {
      *held = std::min(*held, most);
      budget.bytes -= *held;
    }
    budget.elsewhere = 2.0 / 32;
  }
  return budget;
}

}  // namespace tern
