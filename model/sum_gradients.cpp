#include "model/sum_gradients.h"

#include <vector>

#include "model/ops.h"
#include "model/tensor_parts.h"
#include "model/visit_weights.h"

namespace tern {

void join_tied_gradients(const ModelSpec& spec, const ModelWeights& g) {
  if (spec.head().tied && is_trained(head_of(g).projection))
    ops::add_and_clear(dense_rows(head_of(g).projection), embed_of(g).tokens);
}

void sum_shared_gradients(const ModelSpec& part, ModelWeights& gradients, const TensorRanks& group) {
  const std::vector<ParameterInfo> infos = trained_parameters(part);
  const std::vector<Tensor*> own = trained_tensors(part, gradients);
  std::vector<Tensor> alike, keys;
  for (size_t p = 0; p < infos.size(); ++p) {
    const AlikeRows rows = alike_rows(part, infos[p], group.same_keys != nullptr);
    if (rows.by_all)
      alike.push_back(*own[p]);
    else if (rows.from < own[p]->rows())
      keys.push_back(own[p]->rows_view(rows.from, own[p]->rows()));
  }
  group.comm.all_reduce_sum(alike);
  if (group.same_keys) group.same_keys->all_reduce_sum(keys);
}

}  // namespace tern
