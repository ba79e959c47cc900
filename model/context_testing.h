#pragma once
// For tests of context groups: a batch, what of it each rank has, and a step of all ranks beside one rank's.

#include <fmt/format.h>

#include <cstring>

#include "comm/ranks_testing.h"
#include "model/context_ranks.h"
#include "model/linear.h"
#include "model/model_testing.h"
#include "model/ring_rows.h"
#include "model/rope_table.h"
#include "model/visit_weights.h"
#include "spec/context_cost.h"

namespace tern {

/// A tiny model with `heads` heads and, if the family may have another number of them, `keys` key/value heads.
inline ModelSpec spec_of(const std::string& family, int64_t keys = 8, int64_t heads = 8) {
  HfConfig c = tiny_config(family);
  c.num_attention_heads = heads;
  const HfFamily& f = hf_family(c);
  c.num_key_value_heads = f.has_kv_heads && !f.blocks.latent ? keys : heads;
  return model_spec(c);
}

struct Batch {
  std::vector<int32_t> tokens, targets;
  std::optional<RopeTable> rope;
  Rows rows;
  Batch(const ModelSpec& spec, int64_t count) : Batch(spec, count, {0, 5, count}) {}
  Batch(const ModelSpec& spec, int64_t count, std::vector<int64_t> starts)
      : tokens(random_tokens(count, spec.vocab, 3)) {
    targets = random_tokens(count, spec.vocab, 4);
    targets[1] = -1;
    if (spec.turns()) rope = rope_table(spec, count, count);
    rows = make_rows(tokens, std::move(starts), rope ? &*rope : nullptr);
  }
  Batch(const Batch&) = delete;
};

/// Which rows a rank has: a contiguous part, or in a ring two.
inline std::vector<RowInterval> rows_of(int64_t all, int rank, int ranks, bool ring) {
  if (!ring) return {{all / ranks * rank, all / ranks * (rank + 1)}};
  const auto both = rows_in_ring(all, rank, ranks);
  return {both.begin(), both.end()};
}
template <class T>
std::vector<T> cut(std::span<const T> all, std::span<const RowInterval> rows) {
  std::vector<T> own;
  for (const auto& [first, end] : rows) own.insert(own.end(), all.begin() + first, all.begin() + end);
  return own;
}

/// What one rank has of a batch.
struct PartOfBatch {
  std::vector<int32_t> tokens, targets;
  Rows rows;
  PartOfBatch(const Batch& all, int rank, int ranks, bool ring) : rows(all.rows) {
    const std::vector<RowInterval> own = rows_of(std::ssize(all.tokens), rank, ranks, ring);
    tokens = cut(std::span(all.tokens), own), targets = cut(std::span(all.targets), own);
    rows.tokens = tokens, rows.positions = cut(std::span(all.rows.positions), own);
  }
  PartOfBatch(const PartOfBatch&) = delete;
};
/// A rank's rows of x, as workspace of `arena`.
inline Tensor rows_of(const Tensor& x, int rank, int ranks, bool ring, Arena& arena) {
  const Tensor own = arena.allocate(x.dtype(), {x.rows() / ranks, x.count() / x.rows()}, MemoryClass::activations);
  auto* to = static_cast<std::byte*>(own.data());
  for (const auto& [first, end] : rows_of(x.rows(), rank, ranks, ring)) {
    const Tensor part = x.rows_view(first, end);
    std::memcpy(to, part.data(), static_cast<size_t>(part.bytes()));
    to += part.bytes();
  }
  return own;
}

/// One rank's part of a step: its loss, and the summed gradients of all ranks.
inline double context_step(const ModelSpec& spec, const Batch& batch, DType dtype, bool ring, Comm& comm, Arena& memory,
                           ModelWeights& gradients) {
  const ModelWeights own = random_weights(spec, dtype, memory, 7);
  const ContextRanks group{comm, ring};
  const PartOfBatch part(batch, comm.rank(), comm.size(), ring);
  const Compute c{.arena = memory, .context = &group};
  const double loss = add_gradients(spec, own, part.rows, part.targets, 0.25, gradients, c);
  EXPECT_EQ(memory.current()[static_cast<size_t>(MemoryClass::workspace)], 0);
  double all = 0;
  for (const double one : comm.gather(std::span(&loss, 1))) all += one;
  std::vector<Tensor> sums;
  for (const Tensor* t : trained_tensors(spec, gradients)) sums.push_back(*t);
  comm.all_reduce_sum(sums);
  return all;
}

inline void expect_gradients_of_one(const ModelSpec& spec, const Batch& batch, int ranks, DType dtype, double bound,
                                    bool ring) {
  Arena arena;
  const ModelWeights weights = random_weights(spec, dtype, arena, 7);
  ModelWeights want = zero_gradients(spec, dtype, arena);
  const double loss = add_gradients(spec, weights, batch.rows, batch.targets, 0.25, want, {arena});
  with_comms(ranks, {.baton = true}, [&](Comm& comm) {
    Arena memory;
    memory.set_poison(true);
    ModelWeights got = zero_gradients(spec, dtype, memory);
    const double all = context_step(spec, batch, dtype, ring, comm, memory, got);
    EXPECT_LE(std::abs(all - loss) / loss, bound);
    const std::vector<ParameterInfo> infos = trained_parameters(spec);
    const std::vector<Tensor*> is = trained_tensors(spec, got), was = trained_tensors(spec, want);
    for (size_t p = 0; p < infos.size(); ++p) EXPECT_LE(relative_error(*is[p], *was[p]), bound) << infos[p].name;
  });
}

/// The bytes that each pass of a unit sends.
struct PassBytes {
  int64_t forward = 0, backward_input = 0, backward_weight = 0;
};
/// Each pass of a unit takes the bytes that `cost` says, buffers and temporaries each at their most, as the executor counts
/// them, and sends and receives the bytes that `sent` says.
inline void expect_closed_forms(const ModelSpec& spec, DType dtype, Multiply multiply, int ranks, bool ring,
                                const UnitCost& cost, const PassBytes& sent) {
  const Batch batch(spec, 24);
  with_comms(ranks, {.baton = true}, [&](Comm& comm) {
    Arena arena;
    const ModelWeights weights = random_weights(spec, dtype, arena, 1);
    ModelWeights gradients = zero_gradients(spec, dtype, arena);
    const ContextRanks group{comm, ring};
    const Compute c{.arena = arena, .multiply = multiply, .context = &group};
    const PartOfBatch part(batch, comm.rank(), ranks, ring);
    const Rows& rows = part.rows;
    const Tensor x = arena.zeros(dtype, {24 / ranks, spec.width}, MemoryClass::activations);
    UnitSaved saved;
    Tensor y, dx;
    const auto taken = [&](int64_t kept, int64_t workspace, int64_t bytes, const char* pass, auto&& call) {
      const auto now = [&] { return arena.current()[static_cast<size_t>(MemoryClass::activations)]; };
      const int64_t before = now();
      const LinkBytes links = comm.bytes();
      const PeakScope scope(arena);
      call();
      EXPECT_EQ(now() - before, kept) << pass;
      EXPECT_EQ(scope.peak().each[static_cast<size_t>(MemoryClass::activations)] - before, kept) << pass;
      EXPECT_EQ(scope.peak().each[static_cast<size_t>(MemoryClass::workspace)], workspace) << pass;
      EXPECT_EQ(comm.bytes().sent - links.sent, bytes) << pass;
      EXPECT_EQ(comm.bytes().received - links.received, bytes) << pass;
    };
    taken(cost.output_bytes, cost.unsaved_workspace, sent.forward, "without saving",
          [&] { y = unit_forward(spec, 1, weights.units[1], rows, x, nullptr, nullptr, c); });
    y = {};
    taken(cost.output_bytes + cost.saved_bytes, cost.forward_workspace, sent.forward, "forward",
          [&] { y = unit_forward(spec, 1, weights.units[1], rows, x, &saved, nullptr, c); });
    taken(cost.output_bytes + cost.left_bytes, cost.backward_input_workspace, sent.backward_input, "backward input",
          [&] { dx = unit_backward_input(spec, 1, weights.units[1], rows, y, saved, c); });
    taken(0, cost.backward_weight_workspace, sent.backward_weight, "backward weight",
          [&] { unit_backward_weight(spec, 1, weights.units[1], rows, y, saved, gradients.units[1], c); });
  });
}

}  // namespace tern
