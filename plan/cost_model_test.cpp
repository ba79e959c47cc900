#include "plan/cost_model.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/source_dir_testing.h"
#include "hardware/rates.h"
#include "plan/comm_cost.h"
#include "plan/legality.h"
#include "spec/presets.h"
#include "spec/recompute.h"

namespace tern {
namespace {

Machine h100(const char* file = "h100-node.toml") {
  return machine_of(read_cluster(source_dir() + "/examples/hardware/" + file), 0);
}

struct LayerCase {
  ModelSpec spec = *preset_model("llama-2-7b");
  TrainJob job{.batch = 64, .seq = 4096};
  Machine machine = h100();
  Mesh mesh;
  int64_t micro_batch = 1;
  CostVector cost(const LayerStrategy& s, int layer = 1, bool pipelined = true) const {
    return LayerCosts(spec, job, machine, mesh, micro_batch)
        .cost(layers_of(spec)[static_cast<size_t>(layer)], s, pipelined);
  }
};

int64_t block_parameters(const ModelSpec& spec) {
  return unit_cost(spec.units[1], {}).parameters + unit_cost(spec.units[2], {}).parameters;
}

TEST(Layers, AreBlocksAndEqualOnesShareAKind) {
  const std::vector<Layer> llama = layers_of(*preset_model("llama-3-405b"));
  ASSERT_EQ(llama.size(), 128u);
  EXPECT_EQ(llama[1].count, 2);
  EXPECT_EQ(llama[1].kind, llama[126].kind);
  EXPECT_NE(llama[0].kind, llama[1].kind);
  EXPECT_NE(llama[127].kind, llama[1].kind);
  const std::vector<Layer> t5 = layers_of(*preset_model("t5-large"));
  ASSERT_EQ(t5.size(), 1u + 24 + 1 + 24 + 1);
  EXPECT_EQ(t5[2].count, 2);
  EXPECT_EQ(t5[30].count, 3);
  EXPECT_NE(t5[1].kind, t5[2].kind);  // the first has the relative positions
  EXPECT_EQ(t5[2].kind, t5[24].kind);
  EXPECT_NE(t5[2].kind, t5[30].kind);
}

// The first and the last stage exchange the gradient of their table; in one node that is no matter of the network.
TEST(TiedHead, ItsGradientLeavesTheNodeOnlyWhereThereAreSeveral) {
  const auto head = [](double network, int64_t nodes, bool other_groups) {
    LayerCase c;
    c.spec = *preset_model("gpt2-xl");
    c.job = {.batch = 64, .seq = 1024};
    c.mesh.data = 4;
    c.machine.num_nodes = nodes;
    c.machine.levels.resize(1);
    c.machine.levels.push_back({.name = "network", .devices = 64, .bandwidth = network, .latency_ps = 1'000'000});
    const std::vector<Layer> layers = layers_of(c.spec);
    return LayerCosts(c.spec, c.job, c.machine, c.mesh, 1, other_groups).cost(layers.back(), {}, true).sync;
  };
  EXPECT_EQ(head(100e9, 1, false), head(1e9, 1, false)) << "one node: the network is not used";
  EXPECT_LT(head(100e9, 1, false), head(100e9, 2, false));
  EXPECT_LT(head(100e9, 2, false), head(1e9, 2, false));
  EXPECT_EQ(head(1e9, 1, true), head(1e9, 2, false)) << "unlike nodes: the other stage may lie in another one";
}

// Rajbhandari et al. 2020, arXiv:1910.02054: 16 → 4 + 12/N → 2 + 14/N → 16/N bytes per parameter with 16-bit gradients;
// 18 → 6 + 12/N → 2 + 16/N → 18/N with 32-bit ones. Of a part that is shared out the widest rank has up to a block of each
// unit more, and the unit's vectors (spec/owner.h).
void expect_shared(int64_t bytes, int64_t copies, int64_t per_element, int64_t elements, int64_t ranks) {
  const int64_t even = elements / ranks * per_element, more = 2 * (2 * kUpdateBlock) * per_element;
  EXPECT_GE(bytes, copies + even);
  EXPECT_LE(bytes, copies + even + more);
}

TEST(Zero, PersistentBytesAreThePublishedOnes) {
  for (const auto& [gradients, g] : {std::pair{DType::bf16, 2}, {DType::f32, 4}})
    for (const int64_t n : {2, 4, 8}) {
      LayerCase c;
      c.job.gradients = gradients;
      c.mesh.data = n;
      const int64_t p = block_parameters(c.spec);
      ASSERT_EQ(p % n, 0);
      const auto bytes = [&](int zero) { return c.cost({.zero = zero}).persistent[0]; };
      EXPECT_EQ(bytes(0), p * (2 + g + 12));
      expect_shared(bytes(1), p * (2 + g), 12, p, n);
      expect_shared(bytes(2), p * 2, g + 12, p, n);
      expect_shared(bytes(3), 0, 2 + g + 12, p, n);
      const CostVector host = c.cost({.zero = 1, .states = Tier::host});
      EXPECT_EQ(host.persistent[0], p * (2 + g));
      expect_shared(host.persistent[1], 0, 12, p, n);
    }
}

// To the byte: what spec/owner.h deals, unit by unit.
TEST(Zero, SharesAreTheWidestThatAreDealt) {
  LayerCase c;
  for (const int64_t n : {2, 3, 8}) {
    c.mesh.data = n;
    int64_t elements = 0;
    for (const int u : {1, 2})
      elements +=
          widest_share(trained_forms(c.spec.units[u], {}), false, update_config(UpdateRule::adamw), DType::bf16, n)
              .elements;
    EXPECT_EQ(c.cost({.zero = 3}).persistent[0], elements * 18);
  }
}

// Traffic in elements: 2Ψ for stages 0 to 2 (all-reduce, or reduce-scatter and gather), 3Ψ for stage 3, when links have
// no latency and gradients are as wide as weights.
TEST(Zero, TrafficIsTwoAndThreeTimesTheParameters) {
  LayerCase c;
  c.job.gradients = DType::bf16;
  c.mesh.data = 8;
  c.machine.levels[0].latency_ps = 0;
  const int64_t once = ps_of(static_cast<double>(block_parameters(c.spec)) * 2 * 7 / 8, c.machine.levels[0].bandwidth);
  EXPECT_EQ(c.cost({.zero = 0}).sync, 2 * once);
  for (const int zero : {1, 2}) { EXPECT_EQ(c.cost({.zero = zero}).sync + c.cost({.zero = zero}).begin, 2 * once); }
  const CostVector sharded = c.cost({.zero = 3});
  EXPECT_EQ(sharded.begin, 0);
  EXPECT_EQ(sharded.entry_forward, once);  // compute hides a gather inside a stage, nothing the first
  EXPECT_EQ(sharded.entry_backward, once);
  EXPECT_EQ(sharded.sync, once);
}

TEST(Zero, GathersThatComputeDoesNotHideShow) {
  LayerCase c;
  c.mesh.data = 8;
  c.job.seq = 128;
  const CostVector plain = c.cost({.zero = 0}), sharded = c.cost({.zero = 3});
  const int64_t gather = all_gather_ps(c.machine, {8, 1}, block_parameters(c.spec) * 2);
  ASSERT_GT(gather, plain.forward);
  EXPECT_EQ(sharded.forward, gather);
  EXPECT_EQ(sharded.forward + sharded.entry_forward, gather + plain.forward);
  const int64_t reduce = all_gather_ps(c.machine, {8, 1}, block_parameters(c.spec) * 4);
  EXPECT_EQ(sharded.backward + sharded.weight, gather + reduce);
}

// Twin: what a block holds, summed by hand. Bytes per token of a llama-2 block in bf16: attention x 2D, rstd 4, qkv 6D,
// context 2D, lse 4H; mlp x 2D, rstd 4, up 4F.
TEST(Activations, HeldBytesAreTheHandSum) {
  LayerCase c;
  const int64_t T = 4096, D = 4096, H = 32, F = 11008;
  const int64_t attention = 4 + 6 * D + 2 * D + 4 * H, mlp = 4 + 4 * F;
  EXPECT_EQ(c.cost({}).held[0], T * (2 * D + attention + 2 * D + mlp));
  EXPECT_EQ(c.cost({.recompute = Recompute::attention}).held[0], T * (2 * D + 2 * D + mlp));
  EXPECT_EQ(c.cost({.recompute = Recompute::full}).held[0], T * (2 * D + 2 * D));
  // Tensor ranks share all of it: the linears' part by heads and widths, the norms' part by rows.
  for (const int64_t t : {2, 4, 8}) {
    LayerCase split = c;
    split.mesh.tensor = t;
    EXPECT_EQ(split.cost({}).held[0] * t, c.cost({}).held[0]);
    EXPECT_EQ(split.cost({.recompute = Recompute::full}).held[0] * t, T * 4 * D);
  }
  // Context ranks share the tokens.
  LayerCase ring = c;
  ring.mesh.context = 4;
  EXPECT_EQ(ring.cost({}).held[0] * 4, c.cost({}).held[0]);
  // On the host, the device holds two layers' worth on their way.
  const CostVector away = c.cost({.activations = Tier::host});
  EXPECT_EQ(away.held[0], 0);
  EXPECT_EQ(away.held[1], c.cost({}).held[0]);
  EXPECT_EQ(away.transient, c.cost({}).transient + 2 * c.cost({}).held[0]);
  EXPECT_GT(away.host_forward, 0);
}

// Korthikanti et al. 2023, arXiv:2205.05198, counts sbh·34/t for a block with dropout that keeps every input; ours
// keeps neither the norms' outputs (2 + 2), nor the activation's (8), nor masks (1 + 1), and has statistics instead.
TEST(Activations, OfAGptBlockAreLessThanTheTextbookSum) {
  LayerCase c;
  c.spec = *preset_model("gpt2-xl");
  c.job.seq = 1024;
  const int64_t sbh = 1024 * 1600, statistics = 1024 * (8 + 8 + 4 * 25);
  EXPECT_EQ(c.cost({}).held[0], 20 * sbh + statistics);  // 2 + 6 + 2 of attention, 2 + 8 of the mlp
  c.mesh.tensor = 5;
  EXPECT_LT(c.cost({}).held[0] * 5, 34 * sbh);
}

TEST(Recompute, AddsTheForwardItRepeats) {
  LayerCase c;
  const CostVector none = c.cost({}), full = c.cost({.recompute = Recompute::full}),
                   some = c.cost({.recompute = Recompute::attention});
  EXPECT_EQ(none.recompute, 0);
  EXPECT_EQ(full.recompute, none.forward);
  EXPECT_GT(some.recompute, 0);
  EXPECT_LT(some.recompute, full.recompute);
  EXPECT_EQ(full.forward, none.forward);
  EXPECT_EQ(full.backward, none.backward);
}

TEST(Time, IsNearTheModelsFlops) {
  LayerCase c;
  const CostVector v = c.cost({});
  const double flops = 6.0 * double(block_parameters(c.spec)) * 4096 + 12.0 * 4096 * 4096 * 4097 / 2;
  const double seconds = double(v.forward + v.backward + v.weight) * 1e-12;
  EXPECT_GT(flops / seconds, 0.35 * 989e12);
  EXPECT_LT(flops / seconds, 0.76 * 989e12);
}

// Twin: 2·12 bytes of states, 4 of the gradient, 2 of the weight.
TEST(Time, AnUpdateMovesItsBytesAtItsOwnRate) {
  LayerCase c;
  c.machine.device.update = {{DType::f32, 1e9}, {DType::bf16, 3e9}};
  const auto bytes = static_cast<double>(block_parameters(c.spec)) * (2 * 12 + 4 + 2);
  EXPECT_EQ(c.cost({}).update, ps_of(bytes, 3e9) + c.machine.device.launch_ps);
}

// Heads of 64 at half of the pace of those of 128: what a block takes more is its attention's.
TEST(Time, AttentionIsThatOfTheModelsHeads) {
  LayerCase c;
  const auto forward = [&](double at_64, double at_128) {
    AttentionRates r{at_64, at_64};
    c.machine.device.attention_of = {{DType::bf16, 64, r}};
    r.forward = r.backward = at_128;
    c.machine.device.attention_of.push_back({DType::bf16, 128, r});
    return static_cast<double>(c.cost({}).forward);
  };
  const double slow = forward(0.5, 0.1), fast = forward(0.5, 0.2), same = forward(0.1, 0.2);
  EXPECT_EQ(fast, same) << "heads of 128";
  const AttentionSpec& a = *attention_of(c.spec.units[1]);
  ASSERT_EQ(a.head_dim, 128);
  const double pairs = 0.5 * static_cast<double>(c.job.seq) * static_cast<double>(c.job.seq + 1);
  const double peak = peak_flops(c.machine.device, DType::bf16);
  EXPECT_NEAR((slow - fast) * 1e-12, 4 * pairs * static_cast<double>(a.heads * a.head_dim) / peak * (1 / 0.1 - 1 / 0.2),
              1e-9);
}

TEST(Time, MoreBandwidthIsNeverSlowerAndLongerIsNeverFaster) {
  const auto sum = [](const CostVector& v) {
    return v.forward + v.backward + v.weight + v.recompute + v.host_forward + v.host_backward + v.begin + v.sync +
           v.update + v.entry_forward + v.entry_backward;
  };
  for (const char* model : {"llama-2-7b", "mixtral-8x7b", "t5-large"})
    for (const int zero : {0, 1, 2, 3})
      for (const Tier tier : {Tier::device, Tier::host, Tier::disk})
        for (const Mesh& mesh : {Mesh{.data = 8, .expert = 8}, Mesh{.tensor = 4, .data = 2, .expert = 2},
                                 Mesh{.tensor = 2, .context = 2, .data = 2, .expert = 2, .expert_tensor = 2},
                                 Mesh{.context = 4, .data = 2, .ulysses = true}}) {
          LayerCase c;
          c.spec = *preset_model(model);
          c.mesh = mesh;
          c.job.seq = 512;
          for (const int layer : {0, 2, static_cast<int>(layers_of(c.spec).size()) - 1}) {
            const LayerStrategy s{.zero = zero, .states = tier, .activations = tier};
            const int64_t before = sum(c.cost(s, layer));
            for (double* rate : {&c.machine.device.memory_bandwidth, &c.machine.levels[0].bandwidth,
                                 &c.machine.node.host_link_bandwidth, &c.machine.node.host_bandwidth,
                                 &c.machine.node.disk_read, &c.machine.device.attention_forward}) {
              const double was = *rate;
              *rate *= 1.5;
              EXPECT_LE(sum(c.cost(s, layer)), before) << model << " zero " << zero << " layer " << layer;
              *rate = was;
            }
            LayerCase longer = c, wider = c;
            longer.job.seq = 1024;
            wider.micro_batch = 2;
            EXPECT_GE(sum(longer.cost(s, layer)), before);
            EXPECT_GE(sum(wider.cost(s, layer)), before);
          }
        }
}

TEST(Collectives, AreTheTextbooks) {
  Machine m = h100("h100-16384.toml");
  const double nv = m.levels[0].bandwidth, net = m.levels[1].bandwidth;
  const int64_t bytes = 1 << 30;
  const auto near = [](int64_t got, double want) { return std::abs(double(got) - want) <= 2; };
  // Within a node.
  EXPECT_TRUE(near(all_gather_ps(m, {8, 1}, bytes), 7 * 2e6 + bytes * 7.0 / 8 / nv * 1e12));
  EXPECT_TRUE(near(all_reduce_ps(m, {8, 1}, bytes), 2 * (7 * 2e6 + bytes * 7.0 / 8 / nv * 1e12)));
  // One rank per node: the network alone.
  EXPECT_TRUE(near(all_gather_ps(m, {16, 8}, bytes), 15 * 6e6 + bytes * 15.0 / 16 / net * 1e12));
  // Whole nodes: eight cards carry what enters a node.
  EXPECT_TRUE(near(all_gather_ps(m, {32, 1}, bytes),
                   7 * 2e6 + 3 * 6e6 + std::max(bytes * 31.0 / 32 / nv, bytes * 3.0 / 4 / (8 * net)) * 1e12));
  // Beyond a pod: the spine.
  EXPECT_GT(all_gather_ps(m, {2048, 8}, bytes), all_gather_ps(m, {384, 8}, bytes));
  EXPECT_EQ(all_gather_ps(m, {1, 1}, bytes), 0);
  EXPECT_TRUE(near(all_to_all_ps(m, {8, 1}, bytes), 2e6 + bytes * 7.0 / 8 / nv * 1e12));
  EXPECT_TRUE(near(send_ps(m, 8, false, bytes), 6e6 + bytes / net * 1e12));
  EXPECT_TRUE(near(send_ps(m, 4, true, bytes), 2e6 + bytes / nv * 1e12));
}

// Of an MLP, by hand: T = 4,096 tokens, D = 4,096, 11,008 hidden, gate and up stacked. On a slow link the halves wait for each other, on
// a fast one a gather is hidden whole and of a sum the second half shows.
TEST(TensorOverlap, AnMlpTakesTheLongerOfExchangeAndProductByHalves) {
  for (const int64_t n : {2, 4, 8})
    for (const double rate : {0.01, 0.3, 1.0, 100.0}) {
      LayerCase c;
      c.mesh.tensor = n;
      c.machine.levels[0].bandwidth *= rate;
      const auto mlp = [&] { return LayerCosts(c.spec, c.job, c.machine, c.mesh, 1).units()[2]; };
      const UnitFacts off = mlp();
      c.job.tensor_overlap = true;
      const UnitFacts on = mlp();
      const int64_t T = 4096, D = 4096, F = 11008 / n;
      const DeviceType& d = c.machine.device;
      const auto product = [&](int64_t m, int64_t k, int64_t columns, ProductUse use) {
        const auto bytes = static_cast<double>(2 * (m * k + k * columns + m * columns));
        return std::max(matmul_ps(d, DType::bf16, m, columns, k, use), ps_of(bytes, d.memory_bandwidth)) + d.launch_ps;
      };
      const int64_t whole = all_gather_ps(c.machine, {n, 1}, T * D * 2), half = all_gather_ps(c.machine, {n, 1}, T * D);
      // Own rows, then half of the others' and the other half of them; half and half.
      const auto gathered = [&](int64_t p) {
        const int64_t own = p / n, last = (p - own) / 2, middle = p - own - last;
        return std::max(half, own) + std::max(half, middle) + last;
      };
      const auto summed = [&](int64_t p) { return p - p / 2 + std::max(p / 2, half) + half; };
      const int64_t up = product(T, D, 2 * F, ProductUse::any), down = product(T, F, D, ProductUse::any);
      EXPECT_EQ(on.forward - off.forward, gathered(up) + summed(down) - (up + down + 2 * whole)) << n << ", " << rate;
      const int64_t dn = product(T, 2 * F, D, ProductUse::input_gradient),
                    dh = product(T, D, F, ProductUse::input_gradient);
      EXPECT_EQ(on.backward - off.backward, gathered(dh) + summed(dn) - (dh + dn + 2 * whole)) << n << ", " << rate;
      EXPECT_EQ(on.weight, off.weight);
      EXPECT_LT(on.forward, off.forward);
      if (rate == 100.0 && n == 2) { EXPECT_EQ(gathered(up), up) << "a gather is hidden whole"; }
      if (rate == 0.01) {
        EXPECT_GE(on.forward - off.forward + up + down + 2 * whole, 4 * half) << "a slow link shows";
      }
    }
}

TEST(TensorOverlap, ChangesNoPriceWithoutGroupsOnSharedCoresOrBesideAdapters) {
  const auto costs = [](LayerCase c, bool overlap) {
    c.job.tensor_overlap = overlap;
    std::vector<CostVector> all;
    for (size_t l = 0; l < layers_of(c.spec).size(); ++l) all.push_back(c.cost({}, static_cast<int>(l)));
    return all;
  };
  LayerCase c;
  EXPECT_EQ(costs(c, true), costs(c, false)) << "one rank";
  c.mesh.tensor = 2;
  EXPECT_NE(costs(c, true), costs(c, false));
  LayerCase shared = c;
  shared.machine.node.devices_at_once = 1;
  EXPECT_EQ(costs(shared, true), costs(shared, false));
  LayerCase adapted = c;
  adapted.spec = with_adapters(adapted.spec, 8);
  EXPECT_EQ(costs(adapted, true), costs(adapted, false));
}

TEST(Context, ARingHidesItsTransfersBehindLongSequences) {
  LayerCase c;
  c.job.seq = 65536;
  const int64_t alone = c.cost({}).forward;
  c.mesh.context = 8;
  const int64_t ring = c.cost({}).forward;
  EXPECT_LT(double(ring) * 8, double(alone) * 1.03);
  c.mesh.ulysses = true;
  EXPECT_GT(c.cost({}).forward, ring);  // its all-to-alls are in the open
}

TEST(Experts, ReplicasOfExpertsAreFewer) {
  LayerCase c;
  c.spec = *preset_model("mixtral-8x7b");
  c.mesh = {.data = 8, .expert = 8};
  const UnitCost moe = unit_cost(c.spec.units[2], {.expert = 8});
  const int64_t dense = unit_cost(c.spec.units[1], {}).parameters + moe.parameters - moe.expert_parameters;
  expect_shared(c.cost({.zero = 1}).persistent[0], (dense + moe.expert_parameters) * 6 + moe.expert_parameters * 12, 12,
                dense, 8);
  EXPECT_EQ(c.cost({.zero = 0}).sync, all_reduce_ps(c.machine, {8, 1}, dense * 4));
}

TEST(TiedTables, ACopyIsHeldWhereStagesPart) {
  LayerCase c;
  c.spec = *preset_model("gpt2");
  c.job.seq = 1024;
  c.mesh.data = 2;
  const int head = static_cast<int>(layers_of(c.spec).size()) - 1;
  const CostVector whole = c.cost({}, head, false), parted = c.cost({}, head, true);
  // 18 bytes an element of the copy; beside its embedding the head has a gradient of its own.
  EXPECT_EQ(parted.persistent[0] - whole.persistent[0], int64_t{50257} * 768 * (18 - 4));
  c.spec.units.back().frozen = true;
  EXPECT_EQ(whole.persistent[0] - c.cost({}, head, false).persistent[0] - 2 * 768 * 16, int64_t{50257} * 768 * 4);
  EXPECT_GT(parted.sync, whole.sync);
}

TEST(Frozen, LayersSynchroniseTheirAdaptersAlone) {
  LayerCase c;
  c.mesh.data = 8;
  const int64_t full = c.cost({}).persistent[0];
  c.spec = with_adapters(c.spec, 8);
  const int64_t adapters = unit_cost(c.spec.units[1], {}).trained + unit_cost(c.spec.units[2], {}).trained;
  EXPECT_EQ(c.cost({}).persistent[0], full / 18 * 2 + adapters * 18);
  EXPECT_EQ(c.cost({}).sync, all_reduce_ps(c.machine, {8, 1}, adapters * 4));
  EXPECT_EQ(c.cost({}, 0).sync, 0);
  EXPECT_EQ(c.cost({}, 0).update, 0);
}

TEST(Legality, SaysTheRule) {
  LayerCase c;
  const auto rule = [&](const Mesh& m, int64_t micro = 1) { return why_illegal(c.spec, c.job, c.machine, m, micro); };
  EXPECT_EQ(rule({.tensor = 8}), "");
  EXPECT_EQ(rule({.tensor = 3}), "tensor 3: does not divide 32 heads");
  EXPECT_EQ(rule({.data = 3}), "data 3 × micro-batch 1: does not divide a batch of 64");
  EXPECT_EQ(rule({.context = 3}), "context 3: 6 equal parts do not divide a sequence of 4096");
  c.spec = *preset_model("llama-3-8b");
  EXPECT_EQ(rule({.tensor = 16}), "");  // two key heads' worth of ranks share one; two whole nodes
  EXPECT_EQ(rule({.tensor = 4, .context = 3, .ulysses = true}),
            "context 3: 3 equal parts do not divide a sequence of 4096");
  EXPECT_EQ(rule({.tensor = 4, .context = 4, .ulysses = true}),
            "context 4 (ulysses): does not divide the 2 key-value heads of a rank");
  c.spec = *preset_model("mixtral-8x7b");
  EXPECT_EQ(rule({.data = 4, .expert = 3}), "expert 3 × 1: does not divide the 4 ranks of a stage");
  EXPECT_EQ(rule({.data = 16, .expert = 16}), "expert 16: does not divide 8 experts");
  c.job.seq = 4098;
  EXPECT_EQ(rule({.tensor = 4, .context = 3}),
            "tensor × context 12: neither lies within a node of 8 devices nor fills whole nodes");
  c.job.seq = 4096;
  EXPECT_EQ(rule({.data = 8, .expert = 8}), "");
  // Groups that are no powers of two leave devices idle.
  EXPECT_EQ(usable_devices(c.machine, {.tensor = 3}), 6);
  EXPECT_EQ(usable_devices(c.machine, {.tensor = 5}), 5);
  EXPECT_EQ(usable_devices(c.machine, {.tensor = 12}), 0);
  OuterChoice o{.num_stages = 4, .chunks_per_stage = 2, .schedule = PipelineSchedule::interleaved, .num_micro = 6};
  EXPECT_EQ(why_illegal_pipeline(c.machine, o, 34), "interleaved: 6 micro-batches are no multiple of 4 stages");
  o.num_micro = 8;
  EXPECT_EQ(why_illegal_pipeline(c.machine, o, 34), "");
  EXPECT_EQ(why_illegal_pipeline(c.machine, o, 7), "4 stages × 2 chunks: more than 7 layers");
  o.mesh.data = 3;
  EXPECT_EQ(why_illegal_pipeline(c.machine, o, 34), "12 devices: only 8 can be used in groups of 1");
  EXPECT_NE(why_illegal(c.machine, {.zero = 4}), "");
  EXPECT_EQ(why_illegal(c.machine, {.zero = 1}), "");
}

}  // namespace
}  // namespace tern
