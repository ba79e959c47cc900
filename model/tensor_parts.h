#pragma once
// Which part of a model each rank of a tensor group has. Attention heads, hidden widths and rows
// of the vocabulary are divided among the ranks; norms, positions and the biases of out and down
// are whole on each rank. A parameter's weights, gradients and states are cut in the same way.

#include <string>
#include <vector>

#include "model/visit_weights.h"
#include "spec/layout.h"
#include "spec/model_spec.h"
#include "tensor/tensor.h"

namespace tern {

/// Why a model's matrices cannot be divided among this number of ranks ("unit 3 has experts"), or "".
std::string why_not_in_parts(const ModelSpec&, int ranks);

/// One rank's part of the model: heads/ranks query heads; kv_heads/ranks key/value heads or, if there are fewer of these than ranks,
/// one head, which neighbouring ranks have too; an equal part of the hidden width; ⌈vocabulary/ranks⌉ rows, of which the last rank
/// may not use all. Its parameters are parts of the whole model's parameters, in the same order, and have the same size on each rank.
/// Errors: usage: why_not_in_parts.
ModelSpec tensor_part(const ModelSpec&, int ranks);

/// What a rank holds of a parameter of the whole model.
Holding tensor_holding(const ModelSpec& whole, const ParameterInfo&, int rank, int ranks);
/// The interval of the vocabulary that a rank has.
Interval tokens_of(int64_t vocab, int rank, int ranks);

/// take_part: part = the held elements of `whole`, then zeros. put_part copies the held elements back. Shapes:
/// part: any shape with as many elements as local_shape of the holding; the part of a table may have more rows.
void take_part(const Holding&, const Tensor& whole, const Tensor& part);
void put_part(const Holding&, const Tensor& part, const Tensor& whole);

/// Which rows of this rank's part of a parameter are also held by other ranks of the group: rows `from` and later, if any.
/// by_all: every rank holds all rows, and from = 0. Otherwise they are the key and value rows of stacked queries, keys and
/// values; ranks with the same key/value head hold the same rows. keys_alike: whether several ranks have the same key/value head.
struct AlikeRows {
  int64_t from;
  bool by_all;
};
AlikeRows alike_rows(const ModelSpec& part, const ParameterInfo&, bool keys_alike);

/// The ranks of a group with the same key/value heads as `rank`, ascending; only `rank` if there are as many heads as ranks.
std::vector<int> ranks_of_same_keys(const ModelSpec& whole, int rank, int ranks);

}  // namespace tern
