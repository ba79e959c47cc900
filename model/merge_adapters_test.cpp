// A merged model gives what its branches gave, and the error of rounding is what it is said to be.

#include "model/merge_adapters.h"

#include "model/model_testing.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

Tensor logits_of(const ModelSpec& spec, const ModelWeights& weights, Arena& arena) {
  const std::vector<int32_t> tokens = random_tokens(9, spec.vocab, 1);
  const RopeTable rope = rope_table(spec, 16, 16);
  return model_forward(spec, weights, make_rows(tokens, {0, 4, 9}, &rope), nullptr, {arena, Multiply::exact});
}

TEST(MergeAdapters, GivesTheLogitsOfTheBranches) {
  for_each_dense_variant([](const std::string& variant, const ModelSpec& full) {
    SCOPED_TRACE(variant);
    for (const ModelSpec& spec : {with_adapters(full, 3, 0.7), with_uneven_adapters(full)})
      for (const auto& [dtype, bound] : {std::pair{DType::f64, 1e-12}, {DType::f32, 1e-4}}) {
        Arena arena;
        ModelWeights weights = random_weights(spec, dtype, arena, 3);
        const Tensor want = logits_of(spec, weights, arena);
        const MergeError error = merge_adapters(spec, weights, dtype);
        EXPECT_GT(error.matrices, 0);
        EXPECT_LE(error.relative(), dtype == DType::f64 ? 1e-30 : 1e-6);
        EXPECT_LE(relative_error(logits_of(full, weights, arena), want), bound) << name_of(dtype);
      }
  });
}

TEST(MergeAdapters, SaysWhatRoundingTakes) {
  const ModelSpec spec = with_adapters(model_spec(tiny_config("llama")), 2);
  Arena arena;
  ModelWeights exact = random_weights(spec, DType::f64, arena, 3), plain = random_weights(spec, DType::f64, arena, 3),
               stored = random_weights(spec, DType::f64, arena, 3);
  merge_adapters(spec, exact, DType::f64);
  const MergeError error = merge_adapters(spec, stored, DType::bf16);
  const std::vector<Tensor*> was = tensors(spec, plain), is = tensors(spec, exact), rounded = tensors(spec, stored);
  double change = 0, lost = 0;
  const std::vector<ParameterInfo> infos = parameters(spec);
  for (size_t p = 0; p < infos.size(); ++p) {
    if (infos[p].shape.rank != 2 || infos[p].name.starts_with("embed") || infos[p].name.starts_with("head")) continue;
    for (int64_t i = 0; i < is[p]->count(); ++i) {
      const double delta = element(*is[p], i) - element(*was[p], i), off = element(*rounded[p], i) - element(*is[p], i);
      change += delta * delta, lost += off * off;
      EXPECT_EQ(element(*rounded[p], i), to_float(to_bf16(static_cast<float>(element(*is[p], i)))));
    }
  }
  EXPECT_NEAR(error.change, change, 1e-9 * change);
  EXPECT_NEAR(error.lost, lost, 1e-9 * lost);
  EXPECT_GT(error.relative(), 1e-4);
}

}  // namespace
}  // namespace tern
