// A mixture of experts: each expert's rows as one product. In an expert group they are rows of all its ranks (model/expert_ranks.h).

#include "kernels/cpu/experts.h"
#include "kernels/cpu/router.h"

#include <type_traits>
#include <utility>

#include "base/dtype.h"
#include "base/wide_type.h"
#include "kernels/ref/experts_ref.h"
#include "model/expert_ranks.h"
#include "model/linear.h"
#include "model/ops.h"
#include "model/unit_impl.h"
#include "store/extent_cache.h"

namespace tern {

namespace {

Router router_of(const MoeSpec& u) {
  return {.experts = u.experts,
          .top_k = u.top_k,
          .normalized = u.normalized,
          .score = u.score == RouterScore::softmax ? Score::softmax : Score::sigmoid,
          .scaling = u.scaling,
          .groups = u.groups,
          .top_groups = u.top_groups};
}

// What the router decides for T tokens: kept by a forward that trains.
Routing allocate_routing(const MoeSpec& u, int64_t T, DType dtype, MemoryClass kept, const Compute& c) {
  const DType sums = wide_type(dtype);
  return {c.arena.allocate(sums, {T, u.experts}, kept),      c.arena.allocate(sums, {T, u.top_k}, kept),
          c.arena.allocate(DType::i32, {T, u.top_k}, kept),  c.arena.allocate(DType::i32, {T, u.top_k}, kept),
          c.arena.allocate(DType::i32, {T * u.top_k}, kept), c.arena.allocate(DType::i32, {u.experts + 1}, kept)};
}

// The router's arithmetic on tensors, as model/ops.h: f64 on the plain twins. Its own numbers are f32, or f64 beside
// f64.
void route(const MoeSpec& u, const Tensor& bias, const Routing& r) {
  const std::span<int32_t> chosen = r.chosen_TK.span<int32_t>();
  if (r.scores_TE.dtype() == DType::f64)
    choose_experts_ref(router_of(u), ops::span_or_none<double>(bias), r.scores_TE.span<double>(), chosen,
                       r.weights_TK.span<double>());
  else
    choose_experts(router_of(u), ops::span_or_none<float>(bias), r.scores_TE.span<float>(), chosen,
                   r.weights_TK.span<float>());
  sort_by_expert(chosen, u.top_k, r.begin_E.span<int32_t>(), r.tokens_R.span<int32_t>(), r.rows_TK.span<int32_t>());
}
void route_backward(const MoeSpec& u, const Routing& r, const Tensor& dweights, const Tensor& dlogits) {
  const std::span<const int32_t> chosen = r.chosen_TK.span<int32_t>();
  ops::by_dtype(dlogits.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, double>)
      choose_experts_backward_ref(router_of(u), r.scores_TE.span<T>(), chosen, dweights.span<T>(), dlogits.span<T>());
    else
      choose_experts_backward<T>(router_of(u), r.scores_TE.span<float>(), chosen, r.weights_TK.span<float>(),
                                 dweights.span<float>(), dlogits.span<T>());
  });
}

void sigmoid(const Tensor& x) {
  if (x.dtype() == DType::f64) return sigmoid_ref(x.span<double>());
  sigmoid_elements(x.span<float>());
}
void sigmoid_gradients(const Tensor& dy, const Tensor& y, const Tensor& dx) {
  ops::by_dtype(dx.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, double>)
      sigmoid_backward_ref(dy.span<T>(), y.span<T>(), dx.span<T>());
    else
      sigmoid_backward<T>(dy.span<float>(), y.span<float>(), dx.span<T>());
  });
}
void scale_by(const Tensor& factors, std::span<const int32_t> rows, const Tensor& x) {
  ops::by_dtype(x.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, double>)
      scale_rows_ref(factors.span<T>(), x.shape()[1], rows, x.span<T>());
    else
      scale_rows<T>(factors.span<float>(), x.shape()[1], rows, x.span<T>());
  });
}
void dots_of(const Tensor& a, const Tensor& b, std::span<const int32_t> rows, const Tensor& dots) {
  ops::by_dtype(a.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, double>)
      row_dots_ref(a.span<T>(), b.span<T>(), a.shape()[1], rows, dots.span<T>());
    else
      row_dots<T>(a.span<T>(), b.span<T>(), a.shape()[1], rows, dots.span<float>());
  });
}
void combine(const Tensor& x, const Tensor& rows, const Tensor& weights, bool add, const Tensor& y) {
  const std::span<const int32_t> places = rows.span<int32_t>();
  ops::by_dtype(x.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, double>)
      combine_rows_ref(x.span<T>(), x.shape()[1], places, ops::span_or_none<T>(weights), add, y.span<T>());
    else
      combine_rows<T>(x.span<T>(), x.shape()[1], places, ops::span_or_none<float>(weights), add, y.span<T>());
  });
}

// Calls f(expert, first row, end) for every expert that has rows.
template <class F>
void for_each_expert(const ExpertRows& rows, F&& f) {
  for (size_t i = 0; i + 1 < rows.begin.size(); ++i)
    if (rows.begin[i] < rows.begin[i + 1]) f(rows.first + i, rows.begin[i], rows.begin[i + 1]);
}
// Like a product with `linear`, where no expert has rows: the list counts its scratch for every rank.
void take_scratch_without_rows(const ExpertRows& rows, const Linear& linear, DType dtype, const Compute& c) {
  if (!c.experts || rows.count() > 0 || dtype == DType::f64) return;
  if (const int64_t bytes = forward_scratch_bytes(linear, 1, dtype, Multiply::exact); bytes > 0)
    c.arena.bytes(bytes, MemoryClass::workspace);
}
// The cache that reads this matrix when it is asked for, and the matrix' item there; of others none.
std::pair<ExtentCache*, int> cache_of(const Linear& linear) {
  const auto* banded = std::get_if<BandedWeight>(&linear.weight);
  auto* cache = banded ? dynamic_cast<ExtentCache*>(banded->bands.front().ring) : nullptr;
  return {cache, cache ? cache->item_at(banded->bands.front().place) : -1};
}

// Where experts are read when they are chosen: tells each expert's share, the mean over tokens of its scores where it was
// chosen, and asks for those that have rows, in the order of their products.
void ask_for_experts(const MoeWeights& w, const Routing& r, const ExpertRows& at, int64_t T) {
  ExtentCache* const cache = cache_of(w.up.front()).first;
  if (!cache) return;
  const size_t E = w.up.size();
  std::vector<double> shares(E, 0);
  const std::span<const int32_t> chosen = r.chosen_TK.span<int32_t>();
  const std::span<const float> scores = r.scores_TE.span<float>();
  const size_t K = chosen.size() / static_cast<size_t>(T);
  for (size_t i = 0; i < chosen.size(); ++i) {
    const auto e = static_cast<size_t>(chosen[i]);
    shares[e] += static_cast<double>(scores[i / K * E + e]) / static_cast<double>(T);
  }
  std::vector<int> items;
  for (const std::vector<Linear>* matrices : {&w.up, &w.down}) {
    for (size_t e = 0; e < E; ++e) cache->see(cache_of((*matrices)[e]).second, shares[e]);
    for_each_expert(at, [&](size_t e, int64_t, int64_t) { items.push_back(cache_of((*matrices)[e]).second); });
  }
  cache->want(items);
}

// Rows differ from call to call: the exact kernels need not be made for a shape.
Compute for_experts(const Compute& c) { return {c.arena, Multiply::exact, c.observer}; }

// n of each row's token, or df.
Tensor sorted_rows(const Tensor& x_TD, const Routing& r, const Compute& c) {
  const Tensor rows = c.arena.allocate(x_TD.dtype(), {r.tokens_R.rows(), x_TD.shape()[1]}, MemoryClass::workspace);
  ops::gather_rows(x_TD, r.tokens_R.span<int32_t>(), rows);
  return rows;
}
// dots[i] += df row·b, of_dot(i) being the row's number and b, the bias of its expert's `down`. Ascending in doubles, rounded once.
template <class F>
void add_bias_dots(const Tensor& df, const Tensor& dots, F of_dot) {
  const int64_t D = df.shape()[1], n = dots.count();
  ops::by_dtype(df.dtype(), [&]<class T>() {
    using S = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const auto wide = [](T x) {
      if constexpr (std::is_same_v<T, bf16>)
        return static_cast<double>(to_float(x));
      else
        return static_cast<double>(x);
    };
    const std::span<S> to = dots.span<S>();
    const T* rows = df.span<T>().data();
#pragma omp parallel for if (n * D > 1 << 15)
    for (int64_t i = 0; i < n; ++i) {
      const std::pair<int64_t, const Tensor&> of = of_dot(i);
      const T* row = rows + of.first * D;
      const T* bias = of.second.span<T>().data();
      double sum = static_cast<double>(to[static_cast<size_t>(i)]);
      for (int64_t d = 0; d < D; ++d) sum += wide(row[d]) * wide(bias[d]);
      to[static_cast<size_t>(i)] = static_cast<S>(sum);
    }
  });
}

// The biases of the `down` of each row's expert, in dots: of the choices (T, K), or of the rows at this rank's experts.
void add_bias_dots(const MoeSpec& u, const MoeWeights& w, const Tensor& df, const MoeSaved& saved, const ExpertRows& at,
                   const Tensor& dots) {
  using Of = std::pair<int64_t, const Tensor&>;
  const std::span<const int32_t> chosen = saved.routing.chosen_TK.span<int32_t>();
  if (saved.drows_RD.empty())
    return add_bias_dots(df, dots, [&](int64_t i) {
      return Of{i / u.top_k, w.down[static_cast<size_t>(chosen[static_cast<size_t>(i)])].bias};
    });
  for_each_expert(at, [&](size_t e, int64_t begin, int64_t end) {
    add_bias_dots(saved.drows_RD.rows_view(begin, end), dots.rows_view(begin, end), [&](int64_t i) {
      return Of{i, w.down[e].bias};
    });
  });
}

// From the order of tokens and their choices to that of rows (R), and back. Numbers of the router.
enum class RowsWay : uint8_t { to_rows, to_choices };
void reorder(const Tensor& choices, const Routing& r, const Tensor& rows, RowsWay way) {
  const std::span<const int32_t> places = r.rows_TK.span<int32_t>();
  const auto move = [&](auto choice, auto row) {
    for (size_t i = 0; i < places.size(); ++i) {
      auto &a = choice[i], &b = row[static_cast<size_t>(places[i])];
      if (way == RowsWay::to_rows)
        b = a;
      else
        a = b;
    }
  };
  if (choices.dtype() == DType::f64) return move(choices.span<double>(), rows.span<double>());
  move(choices.span<float>(), rows.span<float>());
}

Tensor hidden_of(const MlpSpec& mlp, const Tensor& up, const Compute& c) {
  const Tensor hidden = c.arena.allocate(up.dtype(), {up.rows(), mlp.hidden}, MemoryClass::workspace);
  ops::activation(mlp, up, hidden);
  return hidden;
}
Tensor hidden_of(const MoeSpec& u, const Tensor& up, const ExpertRows& at, const Compute& c) {
  const Tensor hidden = allocate_rows(up.dtype(), at, u.hidden, MemoryClass::workspace, c);
  ops::activation(u.expert(), up, hidden);
  return hidden;
}

}  // namespace

// down_k(act(up_k(n))) of each row, in the order of Routing. up: where the products by `up` go, or empty. normed and up end as soon as they can.
static Tensor experts_forward(const MoeSpec& u, const MoeWeights& w, Tensor normed_TD, const Routing& routing,
                              const ExpertRows& at, Tensor up, const Tensor& arrivals_E, MoeSaved* saved,
                              const Compute& c) {
  const int64_t R = routing.tokens_R.rows();
  const DType dtype = normed_TD.dtype();
  const MemoryClass kept = saved ? MemoryClass::activations : MemoryClass::workspace;
  const Compute exact = for_experts(c);
  Tensor rows = sorted_rows(normed_TD, routing, c);
  normed_TD = {};
  if (c.experts) {
    const Tensor own = std::exchange(rows, allocate_rows(dtype, at, u.width, kept, c));
    rows_to_experts(routing, arrivals_E, own, rows, c);
  }
  if (saved && c.experts) saved->rows_RD = rows;
  if (up.empty()) up = allocate_rows(dtype, at, w.up.front().out, kept, c);
  if (saved) saved->up_RG = up;
  for_each_expert(at, [&](size_t e, int64_t begin, int64_t end) {
    linear_forward(w.up[e], rows.rows_view(begin, end), up.rows_view(begin, end), exact);
  });
  take_scratch_without_rows(at, w.up[at.first], dtype, c);
  rows = {};
  Tensor hidden = hidden_of(u, up, at, c);
  up = {};
  rows = allocate_rows(dtype, at, u.width, MemoryClass::workspace, c);
  for_each_expert(at, [&](size_t e, int64_t begin, int64_t end) {
    linear_forward(w.down[e], hidden.rows_view(begin, end), rows.rows_view(begin, end), exact);
  });
  take_scratch_without_rows(at, w.down[at.first], dtype, c);
  hidden = {};
  if (c.experts) {
    const Tensor here = std::exchange(rows, c.arena.allocate(dtype, {R, u.width}, MemoryClass::workspace));
    rows_from_experts(routing, arrivals_E, here, rows, c);
  }
  return rows;
}

// n = norm(x),  p = softmax(router(n)),  w the K greatest of p (divided by their sum),
// f = Σ_k w_k·down_k(act(up_k(n)))  + g·shared(n),  g = 1 or sigmoid(gate(n)); router, up and down with biases or without
static void forward_branch(const MoeSpec& u, const MoeWeights& w, const Tensor& x, const Tensor& out, MoeSaved* saved,
                           const Compute& c) {
  const int64_t T = x.rows(), R = T * u.top_k;
  const DType dtype = x.dtype();
  const MemoryClass kept = saved ? MemoryClass::activations : MemoryClass::workspace;
  const bool shared = u.shared_hidden > 0;
  NormStatistics stats;
  if (saved) stats = allocate_statistics(u.norm, T, dtype, c);
  const Routing routing = allocate_routing(u, T, dtype, kept, c);
  Tensor up, shared_up, gate, arrivals;
  if (shared && u.shared_gate) gate = c.arena.allocate(wide_type(dtype), {T, 1}, kept);
  if (c.experts) arrivals = c.arena.allocate(DType::i32, {u.experts}, kept);
  const auto allocate_up = [&] { up = c.arena.allocate(dtype, {R, w.up.front().out}, kept); };
  const auto allocate_shared_up = [&] { shared_up = c.arena.allocate(dtype, {T, w.shared_up.out}, kept); };
  if (saved) {
    if (!c.experts) allocate_up();
    if (shared) allocate_shared_up();
    *saved = {.x_TD = x, .mean_T = stats.mean_T, .rstd_T = stats.rstd_T, .routing = routing};
    saved->arrivals_E = arrivals;
    saved->up_RG = up, saved->shared_up_TG = shared_up, saved->shared_gate_T = gate;
  }

  Tensor normed = normed_rows(u.norm, w.norm, x, stats.mean_T, stats.rstd_T, c);
  linear_forward(w.router, normed, routing.scores_TE, c);
  route(u, w.choice_bias, routing);
  if (c.experts) tell_rows(u, routing, arrivals, c);
  const ExpertRows at = expert_rows_here(u, routing, arrivals, c);
  ask_for_experts(w, routing, at, T);
  if (shared) {
    if (!saved) allocate_shared_up();
    linear_forward(w.shared_up, normed, shared_up, c);
    if (!gate.empty()) {
      linear_forward(w.shared_gate, normed, gate, c);
      sigmoid(gate);
    }
    const Tensor hidden = hidden_of(u.shared(), shared_up, c);
    shared_up = {};
    linear_forward(w.shared_down, hidden, out, c);
    if (!gate.empty()) scale_by(gate, {}, out);
  }

  combine(experts_forward(u, w, std::move(normed), routing, at, std::move(up), arrivals, saved, c), routing.rows_TK,
          routing.weights_TK, shared, out);
}

// The experts' part of backward_branch: fills dup and dlogits, and dn = Σ_k da·W_up. In an expert group df and w go to the expert's rank, w·df
// stays there for the weights' gradients, the dots and da·W_up come back.
static void experts_backward_input(const MoeSpec& u, const MoeWeights& w, const Tensor& df, MoeSaved& saved,
                                   const Tensor& dn, MemoryClass left, const Compute& c) {
  const int64_t R = df.rows() * u.top_k;
  const DType dtype = df.dtype(), sums = wide_type(dtype);
  const Routing& r = saved.routing;
  const Tensor& arrivals = saved.arrivals_E;
  const ExpertRows at = expert_rows_here(u, r, arrivals, c);
  const Compute exact = for_experts(c);
  const auto numbers = [&](Shape shape) { return c.arena.allocate(sums, shape, MemoryClass::workspace); };
  const std::span<const int32_t> places = c.experts ? std::span<const int32_t>() : r.rows_TK.span<int32_t>();
  saved.dup_RG = allocate_rows(dtype, at, saved.up_RG.shape()[1], left, c);

  Tensor rows = sorted_rows(df, r, c), weights = r.weights_TK;
  if (c.experts) {
    rows_to_experts(r, arrivals, std::exchange(rows, allocate_rows(dtype, at, u.width, left, c)), rows, c);
    const Tensor own = numbers({R, 1});
    reorder(r.weights_TK, r, own, RowsWay::to_rows);
    weights = allocate_rows(sums, at, 1, MemoryClass::workspace, c);
    rows_to_experts(r, arrivals, own, weights, c);
    saved.drows_RD = rows;
  }
  Tensor dhidden = allocate_rows(dtype, at, u.hidden, MemoryClass::workspace, c);
  for_each_expert(at, [&](size_t e, int64_t begin, int64_t end) {
    linear_backward_input(w.down[e], rows.rows_view(begin, end), dhidden.rows_view(begin, end), exact);
  });
  if (!c.experts) rows = {};
  Tensor dweights = c.experts ? allocate_rows(sums, at, 1, MemoryClass::workspace, c) : numbers({df.rows(), u.top_k});
  dots_of(dhidden, hidden_of(u, saved.up_RG, at, c), places, dweights);
  if (u.expert_bias) add_bias_dots(u, w, df, saved, at, dweights);
  scale_by(weights, places, dhidden);
  if (c.experts) {
    scale_by(weights, {}, rows);
    weights = {};
    const Tensor own = numbers({R, 1});
    rows_from_experts(r, arrivals, std::exchange(dweights, {}), own, c);
    dweights = numbers({df.rows(), u.top_k});
    reorder(dweights, r, own, RowsWay::to_choices);
  }
  ops::activation_backward(u.expert(), saved.up_RG, dhidden, {}, saved.dup_RG);
  dhidden = {};
  route_backward(u, r, dweights, saved.dlogits_TE);
  rows = allocate_rows(dtype, at, u.width, MemoryClass::workspace, c);
  for_each_expert(at, [&](size_t e, int64_t begin, int64_t end) {
    linear_backward_input(w.up[e], saved.dup_RG.rows_view(begin, end), rows.rows_view(begin, end), exact);
  });
  if (c.experts) {
    const Tensor here = std::exchange(rows, c.arena.allocate(dtype, {R, u.width}, MemoryClass::workspace));
    rows_from_experts(r, arrivals, here, rows, c);
  }
  combine(rows, r.rows_TK, {}, false, dn);
}

// Of a row at expert k: v = df·W_down,  dw_k = v·h + df·b_down (= df·down_k(h), without keeping its result),  dh = w_k·v,
// da = dh·act'(a),  dn += Σ_k da·W_up + dlogits·W_router + the shared MLP's; the gate's: dg = (df·W_down)·h·g·(1 - g)
static void backward_branch(const MoeSpec& u, const MoeWeights& w, const Tensor& df, MoeSaved& saved, const Tensor& dx,
                            MemoryClass left, const Compute& c) {
  const int64_t T = df.rows();
  const DType dtype = df.dtype(), sums = wide_type(dtype);
  const bool shared = u.shared_hidden > 0, gated = shared && u.shared_gate;
  const auto kept = [&](Shape shape) { return c.arena.allocate(dtype, shape, left); };
  const auto scratch = [&](Shape shape) { return c.arena.allocate(dtype, shape, MemoryClass::workspace); };
  saved.dlogits_TE = kept(saved.routing.scores_TE.shape());
  if (shared) saved.dshared_up_TG = kept(saved.shared_up_TG.shape());
  if (gated) saved.dshared_gate_T = kept({T, 1});
  if (u.norm.present()) saved.dnormed_TD = kept(df.shape());
  const Tensor dn = u.norm.present() ? saved.dnormed_TD : dx;

  experts_backward_input(u, w, df, saved, dn, left, c);
  if (shared) {
    const Tensor dhidden = scratch({T, u.shared_hidden});
    linear_backward_input(w.shared_down, df, dhidden, c);
    if (gated) {
      const Tensor& g = saved.shared_gate_T;
      Tensor dgate = c.arena.allocate(sums, {T, 1}, MemoryClass::workspace);
      dots_of(dhidden, hidden_of(u.shared(), saved.shared_up_TG, c), {}, dgate);
      scale_by(g, {}, dhidden);
      sigmoid_gradients(dgate, g, saved.dshared_gate_T);
    }
    ops::activation_backward(u.shared(), saved.shared_up_TG, dhidden, {}, saved.dshared_up_TG);
  }
  {
    const Tensor other = scratch(df.shape());
    const auto add_part = [&](const Linear& linear, const Tensor& dy) {
      linear_backward_input(linear, dy, other, c);
      ops::add(other, dn);
    };
    add_part(w.router, saved.dlogits_TE);
    if (shared) add_part(w.shared_up, saved.dshared_up_TG);
    if (gated) add_part(w.shared_gate, saved.dshared_gate_T);
  }
  if (u.norm.present())
    ops::norm_backward_input(u.norm, w.norm, saved.dnormed_TD, saved.x_TD, saved.mean_T, saved.rstd_T, dx);
}

// dW_down += (w_k·df)ᵀ·h,  dW_up += daᵀ·n per expert; router, shared MLP and gate as linears of all rows; h and n are
// made again, with the bits of the forward
void moe_backward_weight(const MoeSpec& u, const MoeWeights& w, const Tensor& df, const MoeSaved& saved, MoeWeights& g,
                         const Compute& c) {
  const Compute exact = for_experts(c);
  const Routing& r = saved.routing;
  const ExpertRows at = expert_rows_here(u, r, saved.arrivals_E, c);
  const bool shared = u.shared_hidden > 0, gated = shared && u.shared_gate;
  {
    const Tensor hidden = hidden_of(u, saved.up_RG, at, c), rows = c.experts ? saved.drows_RD : sorted_rows(df, r, c);
    if (!c.experts) scale_by(r.weights_TK, r.rows_TK.span<int32_t>(), rows);
    for_each_expert(at, [&](size_t e, int64_t begin, int64_t end) {
      linear_backward_weight(w.down[e], rows.rows_view(begin, end), hidden.rows_view(begin, end), g.down[e], exact);
    });
  }
  {
    const Tensor normed = normed_rows(u.norm, w.norm, saved.x_TD, {}, {}, c);
    {
      const Tensor rows = c.experts ? saved.rows_RD : sorted_rows(normed, r, c);
      for_each_expert(at, [&](size_t e, int64_t begin, int64_t end) {
        linear_backward_weight(w.up[e], saved.dup_RG.rows_view(begin, end), rows.rows_view(begin, end), g.up[e], exact);
      });
    }
    linear_backward_weight(w.router, saved.dlogits_TE, normed, g.router, c);
    if (shared) linear_backward_weight(w.shared_up, saved.dshared_up_TG, normed, g.shared_up, c);
    if (gated) linear_backward_weight(w.shared_gate, saved.dshared_gate_T, normed, g.shared_gate, c);
  }
  if (shared) {
    const Tensor hidden = hidden_of(u.shared(), saved.shared_up_TG, c);
    Tensor from = df;
    if (gated) {
      ops::copy(df, from = c.arena.allocate(df.dtype(), df.shape(), MemoryClass::workspace));
      scale_by(saved.shared_gate_T, {}, from);
    }
    linear_backward_weight(w.shared_down, from, hidden, g.shared_down, c);
  }
  if (u.norm.present())
    ops::norm_backward_weight(u.norm, saved.dnormed_TD, saved.x_TD, saved.mean_T, saved.rstd_T, g.norm);
}

// y = x + f(x)
Tensor moe_forward(const MoeSpec& u, const MoeWeights& w, const Tensor& x, MoeSaved* saved, const Compute& c) {
  const Tensor y = c.arena.allocate(x.dtype(), x.shape(), MemoryClass::activations);
  forward_branch(u, w, x, y, saved, c);
  ops::add(x, y);
  return y;
}

Tensor moe_backward_input(const MoeSpec& u, const MoeWeights& w, const Tensor& dy, MoeSaved& saved, MemoryClass left,
                          const Compute& c) {
  const Tensor dx = c.arena.allocate(dy.dtype(), dy.shape(), MemoryClass::activations);
  backward_branch(u, w, dy, saved, dx, left, c);
  ops::add(dy, dx);
  return dx;
}

}  // namespace tern
