#pragma once
// How replicas share the parameters of a layer, and the bytes that each rank then holds all the time.

#include <cstdint>

#include "plan/layers.h"
#include "plan/train_job.h"
#include "spec/mesh.h"
#include "spec/model_spec.h"
#include "spec/owner.h"
#include "spec/unit_cost.h"
#include "spec/update_rule.h"

namespace tern {

/// Of a layer on one rank of its stage: parameters in elements, the update rule's states in bytes. [0]: dense
/// parameters and copies of the embedding table; [1]: experts' parameters.
struct LayerParameters {
  int64_t all[2]{}, trained[2]{}, state_bytes[2]{};
  WidestShare
      widest[2];       // the most that one replica keeps, where replicas shard state: the sum over units of each unit's
                       // widest share
  int64_t tables = 0;  // number of copies of the embedding table in this layer; 0 in a plan of one stage
  int64_t own_gradients = 0;  // elements of gradients that have no parameters of their own (a tied head's)
  int64_t lent = 0;  // elements of the embedding table that this layer reads and another layer of the same stage keeps
                     // (a tied head or a bridge in a plan of one stage)
};
/// The copy of the embedding table that one rank needs for a unit (a tied head, a bridge).
struct TableCopy {
  int64_t parameters = 0, trained = 0, state_bytes = 0;  // elements, elements, bytes
  WidestShare widest;
};
/// That copy; zeros for a unit that needs none.
TableCopy table_copy(const ModelSpec&, const Unit&, const CostQuery&, const UpdateConfig&, const Mesh&);
/// The parameters of a layer. `pipelined`: more than one stage. The query's tensor and expert axes count, its tokens do
/// not.
LayerParameters layer_parameters(const ModelSpec&, const Layer&, const CostQuery&, const UpdateConfig&, const Mesh&,
                                 bool pipelined);

/// Bytes of a layer on the rank that has most; `shard`: elements that this rank's update works on.
struct SharedBytes {
  int64_t weights = 0, gradients = 0, states = 0;
  int64_t shard = 0;
};
/// The bytes under ZeRO stage `zero` (LayerStrategy). Trained parameters are sharded as spec/owner.h deals them, frozen
/// parameters in equal parts. Every rank keeps the whole of a tied head's own gradient.
SharedBytes shared_bytes(const TrainJob&, const Mesh&, const LayerParameters&, int zero);

}  // namespace tern
