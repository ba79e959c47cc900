#include <numeric>
#include <optional>

#include "model/ops.h"
#include "model/tensor_ranks.h"
#include "model/unit_impl.h"
#include "tensor/bytes_of.h"

namespace tern {

namespace {

std::vector<int32_t> position_rows(const EmbedSpec& u, const Rows& rows) {
  std::vector<int32_t> at = rows.positions;
  for (int32_t& p : at) {
    TERN_CHECK(0 <= p && p + u.position_offset < u.positions, "embed: position {} of {}", p,
               u.positions - u.position_offset);
    p += static_cast<int32_t>(u.position_offset);
  }
  return at;
}

std::vector<int32_t> type_rows(const EmbedSpec& u, const Rows& rows) {
  std::vector<int32_t> types(rows.types.begin(), rows.types.end());
  types.resize(rows.tokens.size());
  for (const int32_t t : types)
    TERN_CHECK(0 <= t && t < u.token_types, "embed: segment kind {} of {}", t, u.token_types);
  return types;
}

std::vector<int32_t> own_ids(const std::vector<int32_t>& ids, const Interval& mine) {
  return {ids.begin() + mine.begin, ids.begin() + mine.end};
}

// Whether a row of the vocabulary is this rank's: its place there.
std::optional<int64_t> own_token(int32_t id, const TensorRanks& group) {
  return group.tokens.begin <= id && id < group.tokens.end ? std::optional(id - group.tokens.begin) : std::nullopt;
}

// Rows of a table that a group shares out: each rank has its rows of the sum of what each has.
void gather_shared(const Tensor& table, std::span<const int32_t> ids, const Tensor& x, const Compute& c) {
  const Tensor summand =
      c.arena.zeros(x.dtype(), {static_cast<int64_t>(ids.size()), x.shape()[1]}, MemoryClass::workspace);
  for (size_t t = 0; t < ids.size(); ++t)
    if (const auto at = own_token(ids[t], *c.tensor))
      ops::copy(table.rows_view(*at, *at + 1), summand.rows_view(static_cast<int64_t>(t), static_cast<int64_t>(t) + 1));
  sum_to_own_rows(summand, x, c);
}

// dtable += the rows of dy whose tokens this rank has, in their order.
void scatter_shared(const Tensor& dy, std::span<const int32_t> ids, const Tensor& dtable, const Compute& c) {
  const Tensor all = all_rows(dy, static_cast<int64_t>(ids.size()), c);
  std::vector<int32_t> own;
  for (size_t t = 0; t < ids.size(); ++t)
    if (const auto at = own_token(ids[t], *c.tensor)) {
      const auto to = static_cast<int64_t>(own.size()), from = static_cast<int64_t>(t);
      if (to < from) ops::copy(all.rows_view(from, from + 1), all.rows_view(to, to + 1));
      own.push_back(static_cast<int32_t>(*at));
    }
  if (!own.empty()) ops::scatter_rows_add(all.rows_view(0, static_cast<int64_t>(own.size())), own, dtable);
}

// As gather_coded_rows of the whole table.
void gather_from_file(const FileTable& table, std::span<const int32_t> ids, const Tensor& y, const Compute& c) {
  const auto count = static_cast<int64_t>(ids.size());
  const Tensor bytes = c.arena.bytes(count * table.rows.row_bytes, MemoryClass::workspace);
  read_rows(table.rows, ids, bytes_of(bytes));
  std::vector<int32_t> each(ids.size());
  std::iota(each.begin(), each.end(), 0);
  ops::gather_coded_rows({{{table.type, bytes, count}}}, each, y);
}

}  // namespace

// y_t = m·tokens[id_t] (+ positions[p_t] + token_types[s_t]),  normed (or not)
Tensor embed_forward(const EmbedSpec& u, const EmbedWeights& w, const Rows& rows, DType dtype, EmbedSaved* saved,
                     const Compute& c) {
  const Interval mine = own_rows(static_cast<int64_t>(rows.tokens.size()), c);
  const int64_t T = mine.size();
  const Tensor y = c.arena.allocate(dtype, {T, u.width}, MemoryClass::activations);
  Tensor x = y;
  if (saved) {
    *saved = {};
    if (u.norm.present()) {
      x = c.arena.allocate(dtype, y.shape(), MemoryClass::activations);
      const NormStatistics stats = allocate_statistics(u.norm, T, dtype, c);
      *saved = {x, stats.mean_T, stats.rstd_T};
    }
  }
  if (c.tensor)
    gather_shared(w.tokens, rows.tokens, x, c);
  else if (w.tokens_in_file.rows.files)
    gather_from_file(w.tokens_in_file, rows.tokens, x, c);
  else if (w.coded_tokens.pieces.empty())
    ops::gather_rows(w.tokens, rows.tokens, x);
  else
    ops::gather_coded_rows(w.coded_tokens, rows.tokens, x);
  if (u.multiplier != 1) ops::scale(u.multiplier, x);
  if (u.positions) ops::gather_rows_add(w.positions, own_ids(position_rows(u, rows), mine), x);
  if (u.token_types) ops::gather_rows_add(w.token_types, own_ids(type_rows(u, rows), mine), x);
  if (u.norm.present())
    ops::norm(u.norm, w.norm, x, y, saved ? saved->mean_T : Tensor{}, saved ? saved->rstd_T : Tensor{});
  return y;
}

// dx = norm'(dy),  dtokens[id_t] += m·dx_t,  dpositions[p_t] += dx_t,  dtoken_types[s_t] += dx_t
void embed_backward_weight(const EmbedSpec& u, const EmbedWeights& w, const Rows& rows, const Tensor& dy,
                           const EmbedSaved& saved, EmbedWeights& g, const Compute& c) {
  Tensor dx = dy;
  if (u.norm.present() || u.multiplier != 1) {
    dx = c.arena.allocate(dy.dtype(), dy.shape(), MemoryClass::workspace);
    if (u.norm.present()) {
      ops::norm_backward_input(u.norm, w.norm, dy, saved.x_TD, saved.mean_T, saved.rstd_T, dx);
      ops::norm_backward_weight(u.norm, dy, saved.x_TD, saved.mean_T, saved.rstd_T, g.norm);
    } else {
      ops::copy(dy, dx);
    }
  }
  const Interval mine = own_rows(static_cast<int64_t>(rows.tokens.size()), c);
  if (u.positions) ops::scatter_rows_add(dx, own_ids(position_rows(u, rows), mine), g.positions);
  if (u.token_types) ops::scatter_rows_add(dx, own_ids(type_rows(u, rows), mine), g.token_types);
  if (u.multiplier != 1) ops::scale(u.multiplier, dx);
  if (c.tensor) return scatter_shared(dx, rows.tokens, g.tokens, c);
  ops::scatter_rows_add(dx, rows.tokens, g.tokens);
}

}  // namespace tern
