// Expert parallelism: ranks with parts of a mixture's experts compute the activations of one rank to the bit, and its gradients.
#include <fmt/format.h>

#include <cstring>

#include "comm/ranks_testing.h"
#include "model/expert_ranks.h"
#include "model/linear.h"
#include "model/model_testing.h"
#include "model/rope_table.h"
#include "model/visit_weights.h"
#include "spec/expert_cost.h"

namespace tern {
namespace {

constexpr int64_t kTokensOfRank = 11;  // of each rank

ModelSpec expert_spec(const std::string& family, int64_t experts) {
  HfConfig c = tiny_config(family);
  c.num_experts = experts;
  if (c.expert_groups > 1) c.expert_groups = 2, c.top_groups = 1;
  return model_spec(c);
}

int mixture_of(const ModelSpec& spec) {
  int u = 0;
  while (!moe_of(spec.units[static_cast<size_t>(u)])) ++u;
  return u;
}

// Without the experts of other ranks.
void drop_others(const ModelSpec& spec, int rank, int ranks, ModelWeights& w) {
  for (size_t u = 0; u < spec.units.size(); ++u)
    if (auto* m = std::get_if<MoeWeights>(&w.units[u]))
      for (size_t e = 0; e < m->up.size(); ++e)
        if (static_cast<int>(e * static_cast<size_t>(ranks) / m->up.size()) != rank)
          for (Linear* l : {&m->up[e], &m->down[e]}) dense_rows(*l) = {}, l->bias = {};
}

// All tokens choose the same experts, so that some ranks get no row.
void choose_alike(ModelWeights& w) {
  for (UnitWeights& unit : w.units)
    if (auto* m = std::get_if<MoeWeights>(&unit)) dense_rows(m->router).fill_zero();
}

struct RankBatch {
  std::vector<int32_t> tokens, targets;
  std::optional<RopeTable> rope;
  Rows rows;
  RankBatch(const ModelSpec& spec, int rank)
      : tokens(random_tokens(kTokensOfRank, spec.vocab, 3 + static_cast<uint64_t>(rank))),
        targets(random_tokens(kTokensOfRank, spec.vocab, 50 + static_cast<uint64_t>(rank))) {
    if (spec.turns()) rope = rope_table(spec, kTokensOfRank, kTokensOfRank);
    rows = make_rows(tokens, {0, 5, kTokensOfRank}, rope ? &*rope : nullptr);
  }
  RankBatch(const RankBatch&) = delete;
};

struct ExpertCase {
  std::string family;
  int64_t experts;
  int ranks;
  bool alike = false;
  double capacity = 1;  // less than what some routing needs
};

void expect_gradients_of_one(const ExpertCase& k) {
  SCOPED_TRACE(fmt::format("{}, {} experts on {} ranks{}", k.family, k.experts, k.ranks, k.alike ? ", alike" : ""));
  const ModelSpec spec = expert_spec(k.family, k.experts);
  Arena arena;
  ModelWeights weights = random_weights(spec, DType::f64, arena, 7);
  if (k.alike) choose_alike(weights);
  ModelWeights want = zero_gradients(spec, DType::f64, arena);
  std::vector<double> losses;
  for (int r = 0; r < k.ranks; ++r) {
    const RankBatch batch(spec, r);
    losses.push_back(add_gradients(spec, weights, batch.rows, batch.targets, 0.25, want, {arena}));
  }
  with_comms(k.ranks, {.baton = true}, [&](Comm& comm) {
    Arena memory;
    ModelWeights own = random_weights(spec, DType::f64, memory, 7), got = zero_gradients(spec, DType::f64, memory);
    if (k.alike) choose_alike(own);
    drop_others(spec, comm.rank(), k.ranks, own), drop_others(spec, comm.rank(), k.ranks, got);
    RoutedRows routed;
    const ExpertRanks group{comm, k.capacity, routed};
    const RankBatch batch(spec, comm.rank());
    const double loss =
        add_gradients(spec, own, batch.rows, batch.targets, 0.25, got, {.arena = memory, .experts = &group});
    EXPECT_EQ(memory.current()[static_cast<size_t>(MemoryClass::workspace)], 0);
    EXPECT_EQ(routed.beyond.current_total(), 0);
    EXPECT_EQ(loss, losses[static_cast<size_t>(comm.rank())]);
    const std::vector<ParameterInfo> infos = trained_parameters(spec);
    const std::vector<Tensor*> is = trained_tensors(spec, got), was = trained_tensors(spec, want);
    std::vector<Tensor> dense;
    for (size_t p = 0; p < infos.size(); ++p)
      if (infos[p].name.find(".experts.") == std::string::npos) dense.push_back(*is[p]);
    comm.all_reduce_sum(dense);
    for (size_t p = 0; p < infos.size(); ++p) {
      if (is[p]->empty()) continue;
      const bool zero = std::ranges::all_of(was[p]->span<double>(), [](double x) { return x == 0; });  // no row came
      if (zero)
        EXPECT_TRUE(std::ranges::equal(is[p]->span<double>(), was[p]->span<double>())) << infos[p].name;
      else
        EXPECT_LE(relative_error(*is[p], *was[p]), 1e-12) << infos[p].name;
    }
  });
}

TEST(ExpertParallel, EveryGradientIsThatOfOneRank) {
  for (const char* family : {"mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss"})
    for (const auto& [experts, ranks] : {std::pair{4, 2}, {4, 4}, {8, 4}, {6, 3}})
      for (const double capacity : {1.0, 4.0})
        expect_gradients_of_one({.family = family, .experts = experts, .ranks = ranks, .capacity = capacity});
  for (const char* family : {"deepseek_v2", "deepseek_v3"})
    for (const auto& [experts, ranks] : {std::pair{6, 2}, {6, 3}, {8, 4}})
      expect_gradients_of_one({.family = family, .experts = experts, .ranks = ranks});
}

TEST(ExpertParallel, RanksThatGetNoRowComputeAlong) {
  for (const char* family : {"mixtral", "qwen2_moe", "gpt_oss"})
    for (const int ranks : {2, 4, 8})
      expect_gradients_of_one({.family = family, .experts = 8, .ranks = ranks, .alike = true});
}

Tensor input_of(const ModelSpec& spec, DType dtype, int rank, Arena& arena) {
  const Tensor x = arena.allocate(dtype, {kTokensOfRank, spec.width}, MemoryClass::activations);
  fill_normal(x, 0.5, 9 + static_cast<uint64_t>(rank));
  return x;
}

// A row's experts see the row alone, wherever they are.
TEST(ExpertParallel, ForwardLeavesTheRowsOfOneRankToTheBit) {
  for (const char* family : {"mixtral", "qwen2_moe", "deepseek_v3", "gpt_oss"})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const Multiply multiply : {Multiply::exact, Multiply::fast}) {
        const ModelSpec spec = expert_spec(family, 8);
        const int u = mixture_of(spec);
        const auto at = static_cast<size_t>(u);
        with_comms(4, {.baton = true}, [&](Comm& comm) {
          Arena arena;
          ModelWeights weights = random_weights(spec, dtype, arena, 7);
          const Tensor x = input_of(spec, dtype, comm.rank(), arena);
          const RankBatch batch(spec, comm.rank());
          const Compute alone{.arena = arena, .multiply = multiply};
          const Tensor want = unit_forward(spec, u, weights.units[at], batch.rows, x, nullptr, nullptr, alone);
          drop_others(spec, comm.rank(), 4, weights);
          RoutedRows routed;
          const ExpertRanks group{comm, 1.25, routed};
          Compute c = alone;
          c.experts = &group;
          UnitSaved saved;
          for (UnitSaved* const kept : {static_cast<UnitSaved*>(nullptr), &saved}) {
            const Tensor got = unit_forward(spec, u, weights.units[at], batch.rows, x, kept, nullptr, c);
            EXPECT_EQ(std::memcmp(got.data(), want.data(), static_cast<size_t>(want.bytes())), 0)
                << family << " " << name_of(dtype) << ", rank " << comm.rank();
          }
        });
      }
}

// Rows that a rank's router sends, counted from what it chose.
struct RowsSent {
  int64_t own = 0, left = 0, came = 0;
};
RowsSent rows_of(const Routing& r, int64_t experts, Comm& comm) {
  const int64_t each = experts / comm.size();
  RowsSent rows;
  std::vector<double> to(static_cast<size_t>(comm.size()));
  for (const int32_t e : r.chosen_TK.span<int32_t>()) ++rows.own, ++to[static_cast<size_t>(e / each)];
  const std::vector<double> all = comm.gather(to);
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank == comm.rank()) continue;
    rows.left += static_cast<int64_t>(to[static_cast<size_t>(rank)]);
    rows.came += static_cast<int64_t>(all[static_cast<size_t>(rank * comm.size() + comm.rank())]);
  }
  return rows;
}

// Buffers and temporaries each at their most, as the executor counts them; and messages.
void expect_closed_forms(const std::string& family, DType dtype, Multiply multiply, int ranks, double capacity,
                         bool alike = false) {
  const ModelSpec spec = expert_spec(family, 8);
  const int u = mixture_of(spec);
  const auto at = static_cast<size_t>(u);
  with_comms(ranks, {.baton = true}, [&](Comm& comm) {
    Arena arena;
    ModelWeights weights = random_weights(spec, dtype, arena, 1), gradients = zero_gradients(spec, dtype, arena);
    if (alike) choose_alike(weights);
    drop_others(spec, comm.rank(), ranks, weights), drop_others(spec, comm.rank(), ranks, gradients);
    RoutedRows counts;
    const ExpertRanks group{comm, capacity, counts};
    const Compute c{.arena = arena, .multiply = multiply, .experts = &group};
    const RankBatch batch(spec, comm.rank());
    const Tensor x = input_of(spec, dtype, comm.rank(), arena);
    const CostQuery query{.tokens = kTokensOfRank,
                          .dtype = dtype,
                          .scratch = scratch_bytes(multiply, dtype),
                          .expert = ranks,
                          .capacity_factor = capacity};
    const UnitCost cost = unit_cost(spec.units[at], query);
    const RoutedBytes routed = routed_bytes(spec.units[at], query);
    UnitSaved saved;
    Tensor y, dx;
    RowsSent sent;
    const auto taken = [&](int64_t kept, int64_t workspace, const RoutedBytes& sends, const char* pass, auto&& call) {
      const auto now = [&] { return arena.current()[static_cast<size_t>(MemoryClass::activations)]; };
      const int64_t before = now();
      const LinkBytes links = comm.bytes();
      const PeakScope scope(arena);
      call();
      const LinkBytes counted{comm.bytes().sent - links.sent, comm.bytes().received - links.received};
      EXPECT_EQ(now() - before, kept) << pass;
      EXPECT_EQ(scope.peak().each[static_cast<size_t>(MemoryClass::activations)] - before, kept) << pass;
      EXPECT_EQ(scope.peak().each[static_cast<size_t>(MemoryClass::workspace)], workspace) << pass;
      if (sent.own == 0) return;
      const int64_t rows = sends.forward + sends.backward_input;
      const int64_t bytes = (sent.left + sent.came) * (rows / (2 * sent.own)) + sends.told / ranks * (ranks - 1);
      EXPECT_EQ(counted.sent, bytes) << pass;
      EXPECT_EQ(counted.received, bytes) << pass;
    };
    const RoutedBytes forward{.forward = routed.forward, .told = routed.told};
    taken(cost.output_bytes, cost.unsaved_workspace, forward, "without saving",
          [&] { y = unit_forward(spec, u, weights.units[at], batch.rows, x, nullptr, nullptr, c); });
    y = unit_forward(spec, u, weights.units[at], batch.rows, x, &saved, nullptr, c);
    sent = rows_of(std::get<MoeSaved>(saved).routing, 8, comm);
    EXPECT_EQ(sent.own, counts.own);
    EXPECT_EQ(sent.left, counts.left);
    EXPECT_EQ(sent.came, counts.came);
    saved = {}, y = {};
    taken(cost.output_bytes + cost.saved_bytes, cost.forward_workspace, forward, "forward",
          [&] { y = unit_forward(spec, u, weights.units[at], batch.rows, x, &saved, nullptr, c); });
    taken(cost.output_bytes + cost.left_bytes, cost.backward_input_workspace, {.backward_input = routed.backward_input},
          "backward input", [&] { dx = unit_backward_input(spec, u, weights.units[at], batch.rows, y, saved, c); });
    taken(0, cost.backward_weight_workspace, {}, "backward weight",
          [&] { unit_backward_weight(spec, u, weights.units[at], batch.rows, y, saved, gradients.units[at], c); });
    const int64_t rows = sent.own - sent.left + sent.came, room = expert_rows(*moe_of(spec.units[at]), query);
    EXPECT_EQ(counts.beyond.peak_total() > 0, rows > room) << "rows beyond the room are counted apart";
    saved = {};
    EXPECT_EQ(counts.beyond.current_total(), 0);
  });
}

TEST(ExpertParallel, BytesInMemoryAndOnLinksAreTheClosedForms) {
  for (const char* family : {"mixtral", "qwen2_moe", "gpt_oss", "deepseek_v3"})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
      for (const Multiply multiply : {Multiply::exact, Multiply::fast})
        for (const int ranks : {2, 4})
          for (const double capacity : {1.0, 1.25, 4.0}) {
            SCOPED_TRACE(fmt::format("{} {} on {}, capacity {}", family, name_of(dtype), ranks, capacity));
            expect_closed_forms(family, dtype, multiply, ranks, capacity);
          }
}

TEST(ExpertParallel, BytesOfARankWithoutRowsAreTheClosedForms) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    for (const Multiply multiply : {Multiply::exact, Multiply::fast})
      expect_closed_forms("mixtral", dtype, multiply, 4, 4.0, true);
}

}  // namespace
}  // namespace tern
