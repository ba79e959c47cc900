#include "model/ops.h"
#include "model/unit_impl.h"

namespace tern {

// y_t = tokens[id_t] (+ positions[p_t])
Tensor embed_forward(const EmbedSpec& u, const EmbedWeights& w, const Rows& rows, DType dtype, const Compute& c) {
  const auto T = static_cast<int64_t>(rows.tokens.size());
  const Tensor y = c.arena.allocate(dtype, {T, u.width}, MemoryClass::activations);
  ops::gather_rows(w.tokens, rows.tokens, y);
  if (u.positions == 0) return y;
  for (const int32_t p : rows.positions)
    TERN_CHECK(0 <= p && p < u.positions, "embed: position {} of {}", p, u.positions);
  ops::gather_rows_add(w.positions, rows.positions, y);
  return y;
}

// dtokens[id_t] += dy_t,  dpositions[p_t] += dy_t
void embed_backward_weight(const EmbedSpec& u, const Rows& rows, const Tensor& dy, EmbedWeights& g) {
  ops::scatter_rows_add(dy, rows.tokens, g.tokens);
  if (u.positions) ops::scatter_rows_add(dy, rows.positions, g.positions);
}

}  // namespace tern
