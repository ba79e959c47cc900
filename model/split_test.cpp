// The backward in two halves: adding over micro-batches, in any schedule, after recomputation, with the same bits.

#include <fmt/format.h>

#include "model/model_testing.h"
#include "model/sum_gradients.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

struct Micro {
  std::vector<int32_t> tokens, targets;
  Rows rows;
};
std::vector<Micro> micro_batches(const ModelSpec& spec, const RopeTable& rope, int num) {
  std::vector<Micro> all(static_cast<size_t>(num));
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].tokens = random_tokens(9, spec.vocab, 100 + i);
    all[i].targets = random_tokens(9, spec.vocab, 200 + i);
    all[i].targets[3] = -1;
    all[i].rows = make_rows(all[i].tokens, {0, 4, 9}, &rope);
  }
  return all;
}

// Unit by unit: all forwards, all BACKWARD_INPUTs, then the BACKWARD_WEIGHTs, as a schedule that delays W does. If
// `recompute`, the first forward keeps nothing and a second one makes what the backward needs; but the embedding, which
// no Program recomputes.
void delayed_weights(const ModelSpec& spec, const ModelWeights& weights, const std::vector<Micro>& micros,
                     bool recompute, ModelWeights& gradients, const Compute& c) {
  const int head = static_cast<int>(spec.units.size()) - 1;
  const auto at = [](int i) { return static_cast<size_t>(i); };
  std::vector<std::vector<UnitSaved>> saved(micros.size(), std::vector<UnitSaved>(spec.units.size()));
  std::vector<std::vector<Tensor>> x(micros.size(), std::vector<Tensor>(spec.units.size() + 1)), dy = x;
  for (size_t m = 0; m < micros.size(); ++m) {
    for (int u = 0; u < head; ++u)
      x[m][at(u + 1)] = unit_forward(spec, u, weights.units[at(u)], micros[m].rows, x[m][at(u)],
                                     recompute && u > 0 ? nullptr : &saved[m][at(u)], nullptr, c);
    head_forward_loss(spec, head_of(weights), micros[m].rows, x[m][at(head)], micros[m].targets, 0.25,
                      saved[m][at(head)].emplace<HeadSaved>(), head_of(gradients), c);
  }
  for (size_t m = 0; m < micros.size(); ++m)
    for (int u = head; u > 0; --u) {
      if (recompute && u < head) {
        const Tensor again =
            unit_forward(spec, u, weights.units[at(u)], micros[m].rows, x[m][at(u)], &saved[m][at(u)], nullptr, c);
        EXPECT_TRUE(same_bits(again, x[m][at(u + 1)])) << "recomputed unit " << u;
      }
      dy[m][at(u - 1)] =
          unit_backward_input(spec, u, weights.units[at(u)], micros[m].rows, dy[m][at(u)], saved[m][at(u)], c);
    }
  for (size_t m = 0; m < micros.size(); ++m)
    for (int u = head; u >= 0; --u)
      unit_backward_weight(spec, u, weights.units[at(u)], micros[m].rows, dy[m][at(u)], saved[m][at(u)],
                           gradients.units[at(u)], c);
}

TEST(SplitBackward, AnyScheduleAndRecomputationGiveTheSameBits) {
  for_each_variant([](const std::string& variant, const ModelSpec& spec) {
    const RopeTable rope = rope_table(spec, 16, 16);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
      for (const Multiply multiply : {Multiply::exact, Multiply::fast}) {
        SCOPED_TRACE(fmt::format("{}, {}, {}", variant, name_of(dtype), static_cast<int>(multiply)));
        Arena arena;
        arena.set_poison(true);
        const Compute c{arena, multiply};
        const ModelWeights weights = random_weights(spec, dtype, arena, 7);
        const std::vector<Micro> micros = micro_batches(spec, rope, 3);
        ModelWeights want = zero_gradients(spec, dtype, arena), delayed = zero_gradients(spec, dtype, arena),
                     recomputed = zero_gradients(spec, dtype, arena);
        for (const Micro& m : micros) add_gradients(spec, weights, m.rows, m.targets, 0.25, want, c);
        delayed_weights(spec, weights, micros, false, delayed, c);
        delayed_weights(spec, weights, micros, true, recomputed, c);
        for (const ModelWeights* g : {&want, &delayed, &recomputed}) join_tied_gradients(spec, *g);
        const std::vector<Tensor*> a = tensors(spec, want), b = tensors(spec, delayed), r = tensors(spec, recomputed);
        const std::vector<ParameterInfo> infos = parameters(spec);
        for (size_t i = 0; i < infos.size(); ++i) {
          EXPECT_TRUE(same_bits(*b[i], *a[i])) << infos[i].name << ", weights delayed";
          EXPECT_TRUE(same_bits(*r[i], *a[i])) << infos[i].name << ", recomputed";
        }
      }
  });
}

TEST(SplitBackward, MicroBatchesAddUpToTheWholeBatch) {
  for_each_variant([](const std::string& variant, const ModelSpec& spec) {
    SCOPED_TRACE(variant);
    Arena arena;
    const Compute c{arena};
    const RopeTable rope = rope_table(spec, 16, 16);
    const ModelWeights weights = random_weights(spec, DType::f64, arena, 8);
    const std::vector<Micro> micros = micro_batches(spec, rope, 3);
    Micro whole;
    std::vector<int64_t> starts{0};
    for (const Micro& m : micros) {
      whole.tokens.insert(whole.tokens.end(), m.tokens.begin(), m.tokens.end());
      whole.targets.insert(whole.targets.end(), m.targets.begin(), m.targets.end());
      for (const int64_t s : {4, 9}) starts.push_back(static_cast<int64_t>(whole.tokens.size()) - 9 + s);
    }
    whole.rows = make_rows(whole.tokens, starts, &rope);
    // From non-zero values: adding, not overwriting, is the claim.
    ModelWeights parts = zero_gradients(spec, DType::f64, arena), one = zero_gradients(spec, DType::f64, arena);
    for (ModelWeights* g : {&parts, &one})
      for_each_parameter(spec, *g,
                         [](const ParameterInfo& info, Tensor& t) { fill_normal(t, 0.3, hash_name(info.name)); });
    double loss_parts = 0;
    for (const Micro& m : micros) loss_parts += add_gradients(spec, weights, m.rows, m.targets, 0.25, parts, c);
    const double loss_one = add_gradients(spec, weights, whole.rows, whole.targets, 0.25, one, c);
    EXPECT_NEAR(loss_parts, loss_one, 1e-12 * loss_one);
    for (const ModelWeights* g : {&parts, &one}) join_tied_gradients(spec, *g);
    const std::vector<Tensor*> a = tensors(spec, parts), b = tensors(spec, one);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_LE(relative_error(*a[i], *b[i]), 1e-12) << i;
  });
}

// 300 rows are two tiles of logits and a tail: the head's sums over tiles are those over slices that fit one tile.
TEST(SplitBackward, TheHeadsTilesAddUp) {
  const ModelSpec spec = model_spec(tiny_config("gpt2"));
  const int head = static_cast<int>(spec.units.size()) - 1;
  Arena arena;
  const Compute c{arena};
  const ModelWeights weights = random_weights(spec, DType::f64, arena, 8);
  const Tensor x = arena.allocate(DType::f64, {300, spec.width}, MemoryClass::activations);
  fill_normal(x, 1, 5);
  const std::vector<int32_t> tokens = random_tokens(300, spec.vocab, 6), targets = random_tokens(300, spec.vocab, 7);
  ModelWeights one = zero_gradients(spec, DType::f64, arena), parts = zero_gradients(spec, DType::f64, arena);
  const auto run = [&](int64_t begin, int64_t end, ModelWeights& gradients, double& loss) {
    const auto slice = [&](const std::vector<int32_t>& all) {
      return std::span(all).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    };
    const Rows rows = make_rows(slice(tokens), {0, end - begin}, nullptr);
    UnitSaved saved;
    loss += head_forward_loss(spec, head_of(weights), rows, x.rows_view(begin, end), slice(targets), 0.5,
                              saved.emplace<HeadSaved>(), head_of(gradients), c);
    const Tensor dx = unit_backward_input(spec, head, weights.units.back(), rows, {}, saved, c);
    unit_backward_weight(spec, head, weights.units.back(), rows, {}, saved, gradients.units.back(), c);
    return dx;
  };
  double loss_one = 0, loss_parts = 0;
  const Tensor dx = run(0, 300, one, loss_one);
  for (int64_t begin = 0; begin < 300; begin += 100) {
    const Tensor part = run(begin, begin + 100, parts, loss_parts);
    EXPECT_LE(relative_error(dx.rows_view(begin, begin + 100), part), 1e-12);
  }
  EXPECT_NEAR(loss_one, loss_parts, 1e-12 * loss_parts);
  EXPECT_LE(relative_error(dense_rows(head_of(one).projection), dense_rows(head_of(parts).projection)), 1e-12);
  EXPECT_LE(relative_error(head_of(one).norm.weight, head_of(parts).norm.weight), 1e-12);
  double sum = 0;
  for (const double l : head_losses(spec, weights, x, targets, c)) sum += l;
  EXPECT_NEAR(sum, loss_one, 1e-12 * loss_one);
}

}  // namespace
}  // namespace tern
