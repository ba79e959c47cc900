// The head in passes on parts of its vocabulary computes what the head does in one.
#include "model/vocabulary_passes.h"

#include <fmt/format.h>

#include "model/model_testing.h"
#include "model/ops.h"
#include "model/tensor_parts.h"

namespace tern {
namespace {

constexpr double kLossWeight = 0.7;

struct PassesCase {
  ModelSpec spec;
  DType dtype = DType::f64;
  double logits = 0;  // if not 0, the projection's numbers are so large
  std::vector<int32_t> targets;
};

// What a head leaves after the same micro-batch twice, so that a gradient that is overwritten differs from one that is added to.
struct PassesResult {
  double loss = 0;
  Tensor dnormed, dprojection;
};

struct PassesBench {
  Arena arena;
  Compute c{.arena = arena};
  ModelWeights weights;
  Tensor x;
  explicit PassesBench(const PassesCase& one) {
    arena.set_poison(true);
    weights = random_weights(one.spec, one.dtype, arena, 1);
    if (one.logits != 0) fill_normal(dense_rows(head_of(weights).projection), one.logits, 9);
    x = arena.allocate(one.dtype, {std::ssize(one.targets), one.spec.width}, MemoryClass::activations);
    fill_normal(x, 1, 2);
  }
  PassesBench(const PassesBench&) = delete;
};

PassesResult in_one(PassesBench& bench, const PassesCase& one) {
  ModelWeights gradients = zero_gradients(one.spec, one.dtype, bench.arena);
  const std::vector<int32_t> tokens(one.targets.size(), 0);
  const Rows rows = make_rows(tokens, {0, std::ssize(tokens)}, nullptr);
  PassesResult r;
  for (int time = 0; time < 2; ++time) {
    HeadSaved saved;
    r.loss = head_forward_loss(one.spec, head_of(bench.weights), rows, bench.x, one.targets, kLossWeight, saved,
                               head_of(gradients), bench.c);
    r.dnormed = saved.dnormed_TD;
  }
  r.dprojection = dense_rows(head_of(gradients).projection);
  return r;
}

PassesResult in_parts(PassesBench& bench, const PassesCase& one, int parts) {
  const HeadSpec& u = one.spec.head();
  ModelWeights gradients = zero_gradients(one.spec, one.dtype, bench.arena);
  HeadWeights& w = head_of(bench.weights);
  const Tensor normed = bench.arena.allocate(one.dtype, bench.x.shape(), MemoryClass::activations);
  ops::norm(u.norm, w.norm, bench.x, normed, {}, {});
  if (u.multiplier != 1) ops::scale(u.multiplier, normed);
  PassesResult r;
  for (int time = 0; time < 2; ++time) {
    std::vector<HeadPartial> left;
    std::vector<HeadPartSaved> saved(static_cast<size_t>(parts));
    const auto tokens = [&](int part) { return tokens_of(u.vocab, part, parts); };
    for (int part = 0; part < parts; ++part)
      left.push_back(head_part_forward(u, vocabulary_part(w.projection, tokens(part)), normed, one.targets,
                                       saved[static_cast<size_t>(part)], bench.c));
    const CombinedHead all = combine_head_parts(u, left, one.targets, kLossWeight, bench.c);
    for (int part = parts - 1; part >= 0; --part)
      head_part_backward_weight(vocabulary_part(w.projection, tokens(part)), normed, one.targets, kLossWeight,
                                all.factors_T[static_cast<size_t>(part)], saved[static_cast<size_t>(part)],
                                vocabulary_part(head_of(gradients).projection, tokens(part)), bench.c);
    r.loss = all.loss, r.dnormed = all.dnormed_TD;
  }
  r.dprojection = dense_rows(head_of(gradients).projection);
  return r;
}

struct PassesBounds {
  double loss, gradients;
};
void expect_one_head(const std::string& name, const PassesCase& one, const PassesBounds& bounds,
                     const std::vector<int>& parts = {1, 2, 3, 4, 8, 40}) {
  PassesBench bench(one);
  const PassesResult want = in_one(bench, one);
  for (const int count : parts) {
    SCOPED_TRACE(fmt::format("{}, {} rows, {} parts", name, one.targets.size(), count));
    const PassesResult got = in_parts(bench, one, count);
    EXPECT_LE(std::abs(got.loss - want.loss), bounds.loss * std::abs(want.loss));
    EXPECT_LE(relative_error(got.dnormed, want.dnormed), bounds.gradients);
    EXPECT_LE(relative_error(got.dprojection, want.dprojection), bounds.gradients);
  }
}

// Every third row has no loss.
std::vector<int32_t> masked_targets(int64_t count, int64_t vocab) {
  std::vector<int32_t> targets = random_tokens(count, vocab, 3);
  for (size_t row = 0; row < targets.size(); row += 3) targets[row] = -1;
  return targets;
}

constexpr PassesBounds kWide{1e-12, 1e-12};

// 37 tokens: 8 parts have 5, the last 2; 40 parts have 1 or none. llama: plain; gemma2: capped logits; granite: a multiplier.
TEST(VocabularyPasses, LossAndBothGradientsAreTheHeads) {
  for (const char* family : {"llama", "gpt2", "gemma2", "granite"})
    for (const int64_t rows : {1, 13, 300}) {  // two whole tiles of 128 and a tail
      PassesCase one{.spec = model_spec(tiny_config(family)), .targets = random_tokens(rows, 37, 3)};
      expect_one_head(family, one, kWide);
      if (rows == 1) continue;
      one.targets = masked_targets(rows, 37);
      expect_one_head(std::string(family) + " with masks", one, kWide);
    }
}

TEST(VocabularyPasses, InTheTypesOfTraining) {
  for (const char* family : {"llama", "gemma2", "granite"}) {
    PassesCase one{.spec = model_spec(tiny_config(family)), .dtype = DType::f32, .targets = masked_targets(150, 37)};
    expect_one_head(std::string(family) + " f32", one, {1e-5, 1e-5});
    one.dtype = DType::bf16;
    expect_one_head(std::string(family) + " bf16", one, {1e-5, 0.02});
  }
}

// Logits of tens of thousands: nothing overflows, though exp of any of them does.
TEST(VocabularyPasses, LargeLogitsDoNotOverflow) {
  PassesCase one{.spec = model_spec(tiny_config("llama")), .logits = 1e4, .targets = masked_targets(13, 37)};
  expect_one_head("f64", one, kWide);
  one.dtype =
      DType::f32;  // a part's loss of 2e5 is rounded by up to 0.008, twice, and that is the error of its logarithm
  expect_one_head("f32", one, {1e-5, 0.05});
}

TEST(VocabularyPasses, ATargetMayBeTheFirstOrTheLastOfAPart) {
  PassesCase one{.spec = model_spec(tiny_config("llama")), .targets = {0, 4, 5, 9, 10, 34, 35, 36, 18, 19}};
  expect_one_head("borders", one, kWide);
}

TEST(VocabularyPasses, RowsWithoutALossGiveNothing) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const PassesCase one{.spec = model_spec(tiny_config("gemma2")), .dtype = dtype, .targets = {-1, -1, -1}};
    PassesBench bench(one);
    for (const int parts : {1, 3, 40}) {
      const PassesResult got = in_parts(bench, one, parts);
      EXPECT_EQ(got.loss, 0);
      for (const Tensor& t : {got.dnormed, got.dprojection})
        for (int64_t i = 0; i < t.count(); ++i) ASSERT_EQ(element(t, i), 0) << name_of(dtype) << " [" << i << "]";
    }
  }
}

TEST(VocabularyPasses, NoRowsAtAll) {
  const PassesCase none{.spec = model_spec(tiny_config("llama")), .targets = {}};
  PassesBench bench(none);
  const VocabularyPart part = vocabulary_part(head_of(bench.weights).projection, {0, 37});
  HeadPartSaved saved;
  const HeadPartial left = head_part_forward(none.spec.head(), part, bench.x, {}, saved, bench.c);
  EXPECT_EQ(combine_head_parts(none.spec.head(), {&left, 1}, {}, 1, bench.c).loss, 0);
}

// What travels and what stays is what program/spread_head.h counts.
TEST(VocabularyPasses, BytesAreThoseOfTheProgram) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const PassesCase one{.spec = model_spec(tiny_config("gemma2")), .dtype = dtype, .targets = masked_targets(13, 37)};
    PassesBench bench(one);
    const int64_t T = 13, D = one.spec.width, s = size_of(dtype), wide = dtype == DType::f64 ? 8 : 4;
    const VocabularyPart part = vocabulary_part(head_of(bench.weights).projection, tokens_of(37, 7, 8));
    ASSERT_EQ(part.tokens.size(), 2);
    HeadPartSaved saved;
    const int64_t before = bench.arena.current_total();
    const HeadPartial left = head_part_forward(one.spec.head(), part, bench.x, one.targets, saved, bench.c);
    EXPECT_EQ(bench.arena.current_total() - before, 2 * T * D * s + 24 * T + T * 2 * s + T * wide);
    EXPECT_EQ(left.a_TD.bytes() + left.g_TD.bytes() + left.numbers_T3.bytes(), 2 * T * D * s + 24 * T);
    const CombinedHead all = combine_head_parts(one.spec.head(), {&left, 1}, one.targets, 1, bench.c);
    EXPECT_EQ(all.factors_T.at(0).bytes(), 8 * T);
  }
}

}  // namespace
}  // namespace tern
