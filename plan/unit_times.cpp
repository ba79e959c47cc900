#include "plan/unit_times.h"

#include <algorithm>
#include <array>

#include "base/wide_type.h"
#include "hardware/rates.h"
#include "plan/comm_cost.h"
#include "plan/cost_model.h"
#include "spec/norm_widths.h"
#include "spec/unit_products.h"

namespace tern {
namespace {

// One rank's view while a unit is priced. T rows of the micro-batch on this rank of the context axis, N of them in the
// norms' regions.
struct Pricing {
  const TrainJob& job;
  const Machine& machine;
  const Mesh& mesh;
  CostQuery query;

  int64_t s() const { return size_of(job.dtype); }
  int64_t T() const { return query.tokens; }
  int64_t N() const { return shard_of(query.tokens, mesh.tensor); }

  // Kernels.
  int64_t launches(int64_t n) const { return counted_ps(n, machine.device.launch_ps); }
  int64_t moved(int64_t bytes) const {
    return ps_of(static_cast<double>(bytes), elementwise_rate(machine.device, job.dtype));
  }
  // Elementwise work, in as many passes as the framework makes of it.
  int64_t passed(int64_t bytes) const {
    return ps_of(static_cast<double>(bytes) * framework().passes, elementwise_rate(machine.device, job.dtype));
  }
  const FrameworkCosts& framework() const { return machine.device.framework; }
  const FrameworkTraits& traits() const { return machine.device.framework.traits; }
  int64_t multiplied(int64_t m, int64_t n, int64_t k, ProductUse use, double times = 1) const {
    const int64_t ps = matmul_ps(machine.device, job.dtype, m, n, k, use);
    const double slower = times / traits().product_rate;
    return slower == 1 ? ps : counted_ps(static_cast<double>(ps) * slower);
  }
  int64_t product(int64_t m, int64_t n, int64_t k, int64_t count, ProductUse use = ProductUse::any,
                  double times = 1) const {
    const auto bytes = static_cast<double>((m * k + k * n + m * n) * s());
    const int64_t least = ps_of(bytes, machine.device.memory_bandwidth);
    return counted_ps(count, std::max(multiplied(m, n, k, use, times), least)) + launches(1);
  }
  // A product that adds its result to a sum of gradients. Bytes: both factors, the sum read and written.
  int64_t summing_product(const MatrixProduct& p) const {
    const auto bytes = static_cast<double>((p.m * p.n + p.m * p.k) * s() + 2 * p.n * p.k * size_of(job.gradients));
    const int64_t least = ps_of(bytes, machine.device.memory_bandwidth);
    return counted_ps(p.count, std::max(multiplied(p.n, p.k, p.m, ProductUse::weight_gradient), least)) + launches(1);
  }
  // The product of a matrix's weight gradient. With GradientSums::in_products its time is that with the sum.
  int64_t weight_product(const MatrixProduct& p) const {
    if (traits().sums == GradientSums::in_products) return summing_product(p);
    return product(p.n, p.k, p.m, p.count, ProductUse::weight_gradient);
  }
  // Operands of products in 8 bits: each is read for its largest magnitude, then read again and written in the layouts of
  // both products that read it.
  int64_t magnitude(int64_t elements) const {
    return traits().product_rate > 1 ? moved(elements * s()) + launches(1) : 0;
  }
  int64_t narrowed(int64_t elements) const {
    return traits().product_rate > 1 ? magnitude(elements) + moved(elements * (s() + 2)) + launches(1) : 0;
  }
  int64_t product_bytes(const MatrixProduct& p) const { return (p.m * p.k + p.k * p.n + p.m * p.n) * s() * p.count; }
  // Over `half` keys half of the share is reached.
  int64_t attention(int64_t flops, double share, double half) const {
    const double keys =
        2.0 * static_cast<double>(query.attended_pairs) / static_cast<double>(std::max<int64_t>(T(), 1));
    const double time = static_cast<double>(flops) * (1 + half / std::max(keys, 1.0));
    return ps_of(time, peak_flops(machine.device, job.dtype) * share) + launches(1);
  }

  // Groups of ranks.
  RankGroup tensor() const { return {mesh.tensor, 1}; }
  RankGroup context() const { return {mesh.context, mesh.tensor}; }
  RankGroup experts() const { return {mesh.expert, mesh.expert_tensor}; }
  int64_t gather_rows(int64_t width) const { return all_gather_ps(machine, tensor(), T() * width * s()); }
  int64_t scatter_rows(int64_t width) const { return reduce_scatter_ps(machine, tensor(), T() * width * s()); }

  // What a gather of rows adds to the time `ps` of the product that reads them, by halves beside it (model/tensor_pairs.cpp):
  //   max(gather of half 0, product of own rows) + max(gather of half 1, product of the others' half 0) + product of the others' half 1
  int64_t gather_beside(int64_t width, int64_t ps) const {
    const int64_t own = ps / mesh.tensor, last = (ps - own) / 2, middle = ps - own - last;
    return std::max(half_exchanged(width, 0), own) + std::max(half_exchanged(width, 1), middle) + last - ps;
  }
  // The same of the sum to the ranks' rows, behind the product that makes the summands:
  //   product of half 0 + max(product of half 1, sum of half 0) + sum of half 1
  int64_t scatter_beside(int64_t width, int64_t ps) const {
    const int64_t last = ps / 2, first = ps - last;
    return first + std::max(last, half_exchanged(width, 0)) + half_exchanged(width, 1) - ps;
  }
  // Half of every rank's rows, the first with the odd one.
  int64_t half_exchanged(int64_t width, int half) const {
    const int64_t rows = half == 0 ? ceil_div(N(), 2) : N() / 2;
    return all_gather_ps(machine, tensor(), rows * mesh.tensor * width * s());
  }
};

// Bytes that a row's norms and residuals move in each pass of a block's unit; 0 for experts.
std::array<int64_t, 3> norm_row_bytes(const Pricing& z, const Unit& unit) {
  const AttentionSpec* a = attention_of(unit);
  const MlpSpec* m = mlp_of(unit);
  const int64_t row = ((a ? a->width : 0) + (m ? m->width : 0)) * z.s();
  return {kNormWidths.forward * row, kNormWidths.backward_input * row, kNormWidths.backward_weight * row};
}

// Products and what passes over memory beside them. Elementwise work: two kernels, for the norm and for the rest.
UnitTimes kernel_times(const Pricing& z, const Unit& unit, const UnitCost& cost) {
  UnitTimes t;
  const GradientSums sums = z.traits().sums;
  int64_t bytes[3]{cost.forward_bytes_moved, cost.backward_input_bytes_moved, cost.backward_weight_bytes_moved};
  for (const MatrixProduct& p : unit_products(unit, z.query)) {
    const int64_t x = p.m * p.k * p.count, weights = p.n * p.k * p.count;
    t.products += z.product(p.m, p.n, p.k, p.count);
    t.forward += z.narrowed(x), t.reduced += z.magnitude(x), t.narrowed_weights += z.narrowed(weights);
    t.backward += z.product(p.m, p.k, p.n, p.count, ProductUse::input_gradient) + z.narrowed(p.m * p.n * p.count);
    for (int64_t& b : bytes) b -= z.product_bytes(p);
    if (!p.trained) continue;
    t.weight += z.weight_product(p);
    if (sums == GradientSums::passes) continue;
    bytes[2] -= weights * (2 * size_of(wide_type(z.job.dtype)) - z.s());  // counted among them as sums
    if (sums == GradientSums::apart)
      t.weight += z.moved(weights * (z.s() + 2 * size_of(z.job.gradients))) + z.launches(1);
  }
  if (!z.traits().sequence_parallel)
    for (size_t i = 0; i < 3; ++i) bytes[i] += (z.T() - z.N()) * norm_row_bytes(z, unit)[i];
  const auto rest = [&](int64_t left) { return left > 0 ? z.passed(left) + z.launches(2) : z.launches(2); };
  t.forward += t.products + rest(bytes[0]);
  t.backward += rest(bytes[1]);
  if (cost.trained) t.weight += rest(bytes[2]);
  return t;
}

// The head's forward makes the loss and both gradients of the projection. Its bytes moved are those of tiles of 128
// rows, as the engine on the CPU reads its weights; a device with a cache that holds a tile's part moves the logits.
UnitTimes head_times(const Pricing& z, const Unit& unit, const HeadSpec& u, const UnitCost& cost) {
  UnitTimes t;
  const MatrixProduct p = unit_products(unit, z.query).front();
  // Its products stay in 16 bits. Source: TorchTitan's "output" filter; Megatron's output layer is not TransformerEngine's.
  const double times = (z.mesh.tensor == 1 ? z.framework().whole_head : 1) * z.traits().product_rate;
  if (has_table(z.machine.device, z.job.dtype, ProductUse::head)) {
    t.forward = counted_ps(3, z.multiplied(p.m, p.n, p.k, ProductUse::head, times)) + z.launches(3);
  } else {
    t.forward = z.product(p.m, p.n, p.k, 1, ProductUse::any, times) +
                z.product(p.m, p.k, p.n, 1, ProductUse::input_gradient, times) +
                (p.trained ? z.product(p.n, p.k, p.m, 1, ProductUse::weight_gradient, times) : 0);
    t.forward += z.passed(p.m * p.n * (4 * 4 + 3 * z.s()) + p.m * p.k * 5 * z.s()) + z.launches(6);
  }
  t.backward = z.passed(cost.backward_input_bytes_moved) + z.launches(1);
  if (cost.trained) t.weight = z.passed(cost.backward_weight_bytes_moved) + z.launches(1);
  if (z.mesh.tensor > 1)  // rows in, their gradients out; maximum, sum and target of each row
    t.forward += z.gather_rows(u.width) + z.scatter_rows(u.width) + 3 * all_reduce_ps(z.machine, z.tensor(), z.T() * 4);
  return t;
}

// A ring hides a step's transfer behind the attention of the block at hand; all-to-alls and gathers are in the open.
void add_context(const Pricing& z, const AttentionSpec& part, int64_t forward, int64_t backward, bool trained,
                 UnitTimes& t) {
  const int64_t n = z.mesh.context;
  if (n == 1) return;
  if (z.mesh.ulysses) {
    const int64_t bytes = z.T() * (part.qkv_rows() + part.heads * part.head_dim) * z.s();
    const int64_t once = all_to_all_ps(z.machine, z.context(), bytes);
    t.forward += once, t.backward += once;
    if (part.head_norm != HeadNormKind::none)  // what was kept before the heads' norms is swapped again
      t.backward += all_to_all_ps(z.machine, z.context(), z.T() * part.qkv_rows() * z.s());
    if (trained)  // what the output's matrix multiplied comes back to its rows once more
      t.weight += all_to_all_ps(z.machine, z.context(), z.T() * part.heads * part.head_dim * z.s());
    return;
  }
  const int64_t bytes = z.T() * 2 * part.kv_heads * part.head_dim * z.s();
  if (z.traits().gathers_context) {  // Source: Chu et al. 2025, section 4: what was gathered is kept for the backward
    t.forward += all_gather_ps(z.machine, z.context(), n * bytes) + z.launches(1);
    t.backward += reduce_scatter_ps(z.machine, z.context(), n * bytes) + z.launches(1);
    return;
  }
  const bool inside = z.mesh.tensor * n <= z.machine.levels.front().devices;
  const auto exposed = [&](int64_t step_bytes, int64_t compute) {
    const int64_t step = send_ps(z.machine, z.mesh.tensor * n, inside, step_bytes);
    return counted_ps(n - 1, std::max<int64_t>(0, step - compute / n));
  };
  t.forward += exposed(bytes, forward) + z.launches(2 * (n - 1));
  t.backward += exposed(2 * bytes, backward) + z.launches(2 * (n - 1));  // keys, values and their gradients
}

// What a tensor group's exchanges around two products add: rows come together before the one, and summands go to the ranks' rows behind
// the other; backward the reverse. Where devices share cores an exchange is work of the cores, beside which nothing is hidden; products
// with adapters are not cut.
struct ExchangeTimes {
  int64_t forward, backward, scatter;  // scatter: the sum's part of forward
};
ExchangeTimes exchange_times(const Pricing& z, const Unit& unit, int64_t width, const MatrixProduct& before,
                             const MatrixProduct& behind) {
  if (!z.job.tensor_overlap || shares_cores(z.machine.node) || !unit.adapters.empty()) {
    const int64_t both = z.gather_rows(width) + z.scatter_rows(width);
    return {both, both, z.scatter_rows(width)};
  }
  const auto forward = [&](const MatrixProduct& p) { return z.product(p.m, p.n, p.k, 1); };
  const auto backward = [&](const MatrixProduct& p) { return z.product(p.m, p.k, p.n, 1, ProductUse::input_gradient); };
  const int64_t scatter = z.scatter_beside(width, forward(behind));
  return {z.gather_beside(width, forward(before)) + scatter,
          z.gather_beside(width, backward(behind)) + z.scatter_beside(width, backward(before)), scatter};
}

// What of the sum of a unit's input gradients over the tensor group is hidden: it passes beside the weight gradient of the unit's first
// matrix, which made them, and of nothing else. Source: Megatron-LM, LinearWithGradAccumulationAndAsyncCommunication.backward, and
// TransformerEngine's Linear: an all-reduce without sequence parallelism, else a reduce-scatter; both are waited for behind that product.
int64_t hidden_sum(const Pricing& z, const Unit& unit, int64_t width, const MatrixProduct& first) {
  const FrameworkTraits& f = z.traits();
  if (!f.hides_input_gradient_sums || z.job.tensor_overlap || shares_cores(z.machine.node) || unit.frozen) return 0;
  const int64_t sum = z.scatter_rows(width) + (f.sequence_parallel ? 0 : z.gather_rows(width));
  return std::min(sum, z.weight_product(first));
}

UnitTimes attention_times(const Pricing& z, const Unit& unit, const AttentionSpec& u, const UnitCost& cost) {
  UnitTimes t = kernel_times(z, unit, cost);
  AttentionSpec part = u;
  part.heads = shard_of(u.heads, z.mesh.tensor), part.kv_heads = shard_of(u.kv_heads, z.mesh.tensor);
  const int64_t pairs = z.query.attended_pairs * part.heads * part.head_dim;
  const AttentionRates rates = attention_rates(z.machine.device, z.job.dtype, u.head_dim);
  const auto scores = [&](double times) {
    const double bytes = static_cast<double>(z.query.attended_pairs * part.heads) * z.framework().score_bytes;
    return ps_of(times * bytes, z.machine.device.memory_bandwidth);
  };
  const int64_t forward = z.attention(4 * pairs, rates.forward, rates.forward_half) + scores(1);
  const int64_t backward = z.attention(10 * pairs, rates.backward, rates.backward_half) + scores(2);
  t.forward += forward, t.backward += backward, t.scores = forward;
  add_context(z, part, forward, backward, cost.trained > 0, t);
  if (z.mesh.tensor > 1) {
    const int64_t gather = z.gather_rows(u.width), scatter = z.scatter_rows(u.width), more = u.cross ? 2 : 1;
    const MatrixProduct first{z.T(), part.qkv_rows(), u.width, 1, true};
    const ExchangeTimes exchanges =
        u.latent.present() ? ExchangeTimes{gather + scatter, gather + scatter, scatter}
                           : exchange_times(z, unit, u.width, first, {z.T(), u.width, part.value_rows(), 1, true});
    t.forward += (more - 1) * gather + exchanges.forward;
    t.reduced += z.traits().sequence_parallel ? exchanges.scatter : 0;
    t.weight += cost.trained ? std::max<int64_t>(0, more * gather - t.backward) : 0;  // rows again, behind the backward
    t.backward += (more - 1) * scatter + exchanges.backward;
    if (!u.latent.present()) t.backward -= hidden_sum(z, unit, u.width, first);
  }
  return t;
}

UnitTimes mlp_times(const Pricing& z, const Unit& unit, const MlpSpec& u, const UnitCost& cost) {
  UnitTimes t = kernel_times(z, unit, cost);
  if (z.mesh.tensor > 1) {
    const int64_t hidden = shard_of(u.hidden, z.mesh.tensor), up = u.gated ? 2 * hidden : hidden;
    const MatrixProduct first{z.T(), up, u.width, 1, true};
    const ExchangeTimes exchanges = exchange_times(z, unit, u.width, first, {z.T(), u.width, hidden, 1, true});
    t.weight += cost.trained ? std::max<int64_t>(0, z.gather_rows(u.width) - t.backward) : 0;
    t.forward += exchanges.forward;
    t.reduced += z.traits().sequence_parallel ? exchanges.scatter : 0;
    t.backward += exchanges.backward - hidden_sum(z, unit, u.width, first);
  }
  return t;
}

// The two branches read one gathered input, as attention alone would, and are reduced together, beside attention's products at most.
UnitTimes parallel_times(const Pricing& z, const Unit& unit, const ParallelSpec& u, const UnitCost& cost) {
  return attention_times(z, unit, u.attention, cost);
}

UnitTimes moe_times(const Pricing& z, const Unit& unit, const MoeSpec& u, const UnitCost& cost) {
  UnitTimes t = kernel_times(z, unit, cost);
  int64_t exchange = 0;  // rows out, results back
  if (z.mesh.expert > 1) {
    const double rows = z.job.capacity_factor * static_cast<double>(z.N() * u.top_k);
    const int64_t bytes = static_cast<int64_t>(rows) * u.width * z.s();
    exchange += 2 * all_to_all_ps(z.machine, z.experts(), bytes);
  }
  if (z.mesh.expert_tensor > 1) {
    const int64_t bytes = expert_rows(u, z.query) * u.width * z.s();
    exchange += 2 * all_gather_ps(z.machine, z.tensor(), bytes);
  }
  if (z.mesh.tensor > 1 && u.shared_hidden) exchange += z.gather_rows(u.width) + z.scatter_rows(u.width);
  t.forward += exchange, t.backward += exchange;
  return t;
}

UnitTimes table_times(const Pricing& z, int64_t width, const UnitCost& cost) {
  UnitTimes t;
  t.forward = z.passed(cost.forward_bytes_moved) + z.launches(2);
  t.backward = cost.backward_input_bytes_moved ? z.passed(cost.backward_input_bytes_moved) + z.launches(2) : 0;
  if (cost.trained) t.weight = z.passed(cost.backward_weight_bytes_moved) + z.launches(2);
  if (z.mesh.tensor > 1) {
    t.forward += z.scatter_rows(width);
    if (cost.trained) t.weight += z.gather_rows(width);
  }
  return t;
}

UnitTimes times_by_kind(const Pricing& z, const Unit& unit, const UnitCost& cost) {
  if (const auto* u = std::get_if<AttentionSpec>(&unit.spec)) return attention_times(z, unit, *u, cost);
  if (const auto* u = std::get_if<MlpSpec>(&unit.spec)) return mlp_times(z, unit, *u, cost);
  if (const auto* u = std::get_if<ParallelSpec>(&unit.spec)) return parallel_times(z, unit, *u, cost);
  if (const auto* u = std::get_if<MoeSpec>(&unit.spec)) return moe_times(z, unit, *u, cost);
  if (const auto* u = std::get_if<HeadSpec>(&unit.spec)) return head_times(z, unit, *u, cost);
  if (const auto* u = std::get_if<EmbedSpec>(&unit.spec)) return table_times(z, u->width, cost);
  return table_times(z, std::get<BridgeSpec>(unit.spec).width, cost);
}

// No unit is faster than its kernels are issued: its products, attention, two for what is elementwise, a collective
// of the tensor axis.
void wait_for_issue(const Pricing& z, const Unit& unit, const UnitCost& cost, UnitTimes& t) {
  const int64_t each = z.framework().issue_ps;
  if (each == 0) return;
  int64_t products = 0, trained = 0;
  for (const MatrixProduct& p : unit_products(unit, z.query)) products += p.count, trained += p.trained ? p.count : 0;
  const auto at_least = [&](int64_t& ps, int64_t kernels) { ps = std::max(ps, counted_ps(kernels, each)); };
  if (std::holds_alternative<HeadSpec>(unit.spec)) {  // its forward has all three products
    at_least(t.forward, 2 * products + trained + 6);
    return;
  }
  const int64_t more = (attention_of(unit) ? 3 : 2) + (z.mesh.tensor > 1 ? 1 : 0);
  at_least(t.forward, products + more);
  if (t.backward > 0) at_least(t.backward, products + more);
  if (cost.trained) at_least(t.weight, trained + 2);
}

}  // namespace

UnitTimes unit_times(const TrainJob& job, const Machine& machine, const Mesh& mesh, const CostQuery& query,
                     const Unit& unit, const UnitCost& cost) {
  const Pricing z{job, machine, mesh, query};
  UnitTimes t = times_by_kind(z, unit, cost);
  wait_for_issue(z, unit, cost, t);
  return t;
}

}  // namespace tern
