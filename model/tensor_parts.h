#pragma once
// Which part of a model each rank of a tensor group has: attention heads, hidden widths and rows of the vocabulary are shared out;
// norms, positions and the biases of out and down are whole on each. Weights, gradients and states of a parameter lie alike.

#include <string>
#include <vector>

#include "model/tensor_ranks.h"
#include "model/weights.h"
#include "spec/layout.h"

namespace tern {

/// Why so many ranks cannot share out a model's matrices, or "": "unit 3 has experts".
std::string why_not_in_parts(const ModelSpec&, int ranks);

/// The model as a rank has it: heads/ranks query heads; key/value heads likewise, or one where there are fewer than ranks, which
/// neighbours then have alike; an equal part of the hidden width; ⌈vocabulary/ranks⌉ rows, of which the last rank may not need
/// all. Its parameters are parts of the whole model's, in the same order, as large on each rank. Errors: usage: why_not_in_parts.
ModelSpec tensor_part(const ModelSpec&, int ranks);

/// What a rank holds of a parameter of the whole model.
Holding tensor_holding(const ModelSpec& whole, const ParameterInfo&, int rank, int ranks);
/// Of the vocabulary.
Interval tokens_of(int64_t vocab, int rank, int ranks);

/// part = the held elements of `whole`, zero behind them; and back. Shapes: part: local_shape of the holding, as many elements
/// count; of a table more rows may follow.
void take_part(const Holding&, const Tensor& whole, const Tensor& part);
void put_part(const Holding&, const Tensor& part, const Tensor& whole);

/// From row `from` on, a rank's part of a parameter is the same on other ranks: on all (by_all, from 0), or, in stacked queries, keys
/// and values with `keys_alike`, keys and values on the ranks of the same head. Else `from` is behind the last row.
struct AlikeRows {
  int64_t from;
  bool by_all;
};
AlikeRows alike_rows(const ModelSpec& part, const ParameterInfo&, bool keys_alike);

/// The ranks of a group that have the same key/value heads as `rank`, ascending; itself alone where heads are not fewer than ranks.
std::vector<int> ranks_of_same_keys(const ModelSpec& whole, int rank, int ranks);
/// After a step's last BACKWARD_WEIGHT: sums the gradients of what several ranks hold alike, as each rank's counts only the rows or
/// heads that it has seen.
void sum_shared_gradients(const ModelSpec& part, ModelWeights& gradients, const TensorRanks&);

}  // namespace tern
