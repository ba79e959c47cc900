#pragma once
// How the parameters of a layer are shared over replicas: bytes that lie on each rank all the time.

#include <cstdint>

#include "plan/layers.h"
#include "plan/train_job.h"
#include "spec/mesh.h"
#include "spec/model_spec.h"
#include "spec/owner.h"
#include "spec/unit_cost.h"
#include "spec/update_rule.h"

namespace tern {

/// Elements of a layer on one rank of its stage, and bytes of the update rule's state: [0] of the dense part, with
/// copies of the embedding; [1] of experts.
struct LayerParameters {
  int64_t all[2]{}, trained[2]{}, state_bytes[2]{};
  WidestShare
      widest[2];       // the most that one replica keeps, where state is shared out: the sum over units of each unit's
                       // widest share
  int64_t tables = 0;  // a tied head's or bridge's copies of the embedding, if in another stage
  int64_t own_gradients = 0;  // elements of gradients that have no parameters of their own (a tied head's)
  int64_t lent = 0;  // elements of the embedding table that this layer reads and another layer of the same stage keeps
                     // (a tied head in a plan of one stage)
};
/// The copy of the embedding table that a unit (a tied head, a bridge) needs on one rank.
struct TableCopy {
  int64_t parameters = 0, trained = 0, state_bytes = 0;  // elements, elements, bytes
  WidestShare widest;
};
TableCopy table_copy(const ModelSpec&, const Unit&, const CostQuery&, const UpdateConfig&, const Mesh&);
/// `pipelined`: more than one stage. The query's tensor and expert axes count, its tokens do not.
LayerParameters layer_parameters(const ModelSpec&, const Layer&, const CostQuery&, const UpdateConfig&, const Mesh&,
                                 bool pipelined);

/// Bytes on each rank at most; `shard`: elements that its update works on. What is trained is shared out as spec/owner.h deals it;
/// frozen parameters in equal parts; a tied head's own gradient is whole on each. `zero` as in LayerStrategy.
struct SharedBytes {
  int64_t weights = 0, gradients = 0, states = 0;
  int64_t shard = 0;
};
SharedBytes shared_bytes(const TrainJob&, const Mesh&, const LayerParameters&, int zero);

}  // namespace tern
