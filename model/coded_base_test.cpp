// Adapters beside matrices that stay coded: losses and gradients to the bit those beside the decoded matrices, which agree
// with finite differences; bytes are the closed forms.
#include "model/coded_base.h"

#include <algorithm>
#include <cmath>

#include "base/threads_testing.h"
#include "formats/format_test_support.h"
#include "kernels/dispatch.h"
#include "model/coded_model_testing.h"
#include "model/linear.h"
#include "model/model_files.h"
#include "model/read_parameter.h"
#include "model/save_coded.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

// Fused layers whose parts have types of their own.
const std::vector<WeightType> kFusedTypes = {WeightType::q4_0, WeightType::q6_k, WeightType::q4_1,
                                             WeightType::q4_k, WeightType::q5_1, WeightType::q8_0};

struct File {
  ModelSpec dense, coded;  // the same model, with adapters
  std::string path;

  File(const TemporaryDirectory& in, const std::string& family, bool tied, const std::vector<WeightType>& types,
       DType dtype)
      : path(in / (family + (tied ? "tied" : "") + std::string(name_of(types.front())) + ".gguf")) {
    const HfConfig config = coded_config(family, tied);
    write_coded_model(config, types, path);
    dense = with_uneven_adapters(model_spec(config));
    coded = with_stored_matrices(dense, path, dtype);
  }
  // A directory of tern's own.
  File(const TemporaryDirectory& in, WeightType type, DType dtype) : path(in / std::string(name_of(type))) {
    const HfConfig config = coded_config("llama", false);
    dense = model_spec(config);
    Arena arena;
    const ModelWeights weights = random_weights(dense, DType::f32, arena, 3);
    std::mt19937_64 random(7);
    CodedMatrix kept;
    const CodeMatrix code = [&](const ParameterInfo& info, WeightType as) -> const CodedMatrix& {
      kept.rows = coded_blocks(as, info.shape.count() / row_of(as).block_elements, 0.3f, random);
      return kept;
    };
    save_coded(dense, config, parameters_of(dense, weights), code, {type, WeightType::q8_0}, DType::f32, path,
               real_io());
    dense = with_uneven_adapters(std::move(dense));
    coded = with_stored_matrices(dense, path, dtype);
  }
  ModelWeights load(const ModelSpec& spec, DType dtype, Arena& arena, double b = 0.1) const {
    ModelWeights weights = load_weights(spec, path, dtype, arena);
    for_each_adapter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
      fill_normal(t, info.name.ends_with(".b") ? b : 0.1, hash_name(info.name));
    });
    return weights;
  }
};

constexpr int64_t kCodedTokens = 21;
struct Pass {
  double loss;
  ModelWeights gradients;
  std::vector<Tensor*> of_adapters(const ModelSpec& spec) { return trained_tensors(spec, gradients); }
};
Pass pass(const ModelSpec& spec, const ModelWeights& weights, DType dtype, const Compute& c) {
  const std::vector<int32_t> tokens = random_tokens(kCodedTokens, spec.vocab, 1),
                             targets = random_tokens(kCodedTokens, spec.vocab, 2);
  const RopeTable rope = spec.rope.kind == RopeKind::none ? RopeTable{} : rope_table(spec, 64, 64);
  const Rows rows = make_rows(tokens, {0, 8, kCodedTokens}, spec.rope.kind == RopeKind::none ? nullptr : &rope);
  Pass p{0, zero_gradients(spec, dtype, c.arena)};
  p.loss = add_gradients(spec, weights, rows, targets, 0.1, p.gradients, c);
  return p;
}

void expect_bits_of_decoded(const File& file, DType dtype, Multiply multiply) {
  Arena arena;
  const Compute c{arena, multiply};
  const ModelWeights decoded = file.load(file.dense, dtype, arena), coded = file.load(file.coded, dtype, arena);
  Pass want = pass(file.dense, decoded, dtype, c), got = pass(file.coded, coded, dtype, c);
  EXPECT_EQ(got.loss, want.loss);
  const std::vector<Tensor*> have = got.of_adapters(file.coded), wanted = want.of_adapters(file.dense);
  ASSERT_EQ(have.size(), wanted.size());
  ASSERT_FALSE(have.empty());
  for (size_t i = 0; i < have.size(); ++i) EXPECT_TRUE(same_bits(*have[i], *wanted[i])) << i;
}

TEST(CodedBase, GradientsHaveTheBitsOfTheDecodedModelUnderEverySet) {
  const TemporaryDirectory dir;
  const Isa before = active_isa();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const File fused(dir, "llama", false, kFusedTypes, dtype), tied(dir, "gpt2", true, {WeightType::q5_k}, dtype);
    const File own(dir, WeightType::u3, dtype);
    for (const File* file : {&fused, &tied, &own})
      ASSERT_TRUE(std::ranges::all_of(file->coded.units, [](const Unit& u) { return u.stored.coded; }));
    for (const Isa isa : available_isas()) {
      force_isa(isa);
      SCOPED_TRACE(std::string(name_of(isa)) + " " + std::string(name_of(dtype)));
      expect_bits_of_decoded(fused, dtype, Multiply::exact);
      expect_bits_of_decoded(tied, dtype, Multiply::exact);
      expect_bits_of_decoded(own, dtype, Multiply::exact);
    }
    force_isa(before);
    for (const int threads : {1, 2})
      with_threads(threads, [&] {
        expect_bits_of_decoded(fused, dtype, Multiply::fast);
        expect_bits_of_decoded(tied, dtype, Multiply::exact);
      });
  }
}

TEST(CodedBase, AnAdapterThatIsNotTrainedYetLeavesTheBaseItsBits) {
  const TemporaryDirectory dir;
  const File file(dir, "llama", true, kFusedTypes, DType::f32);
  Arena arena;
  const Compute c{arena};
  const ModelSpec base = model_spec(coded_config("llama", true));
  const ModelWeights alone = load_weights_to_infer(base, file.path, DType::f32, arena, WeightsIn::coded_file);
  const std::vector<int32_t> tokens = random_tokens(9, base.vocab, 4);
  EXPECT_TRUE(same_bits(logits_of(file.coded, file.load(file.coded, DType::f32, arena, 0), tokens, c),
                        logits_of(base, alone, tokens, c)));
}

// The slope in f64 of the decoded model against the gradient in f32 beside the coded one.
TEST(CodedBase, GradientsAgreeWithFiniteDifferencesInF64) {
  const TemporaryDirectory dir;
  const File file(dir, "llama", false, kFusedTypes, DType::f32);
  Arena arena;
  ModelWeights coded = file.load(file.coded, DType::f32, arena);
  Pass got = pass(file.coded, coded, DType::f32, {arena, Multiply::exact});
  ModelWeights exact = file.load(file.dense, DType::f64, arena);
  const std::vector<Tensor*> have = got.of_adapters(file.coded), places = trained_tensors(file.dense, exact);
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < places.size(); ++i) {
    const Tensor& t = *places[i];
    const Tensor direction = arena.allocate(DType::f64, t.shape(), MemoryClass::staging);
    fill_normal(direction, 1, 50 + i);
    double loss[2], slope = 0, squares = 0;
    for (const int side : {0, 1}) {
      for (int64_t k = 0; k < t.count(); ++k)
        set_element(t, k, element(t, k) + (side ? 2 : -1) * kStep * element(direction, k));
      loss[side] = pass(file.dense, exact, DType::f64, {arena}).loss;
    }
    for (int64_t k = 0; k < t.count(); ++k) {
      set_element(t, k, element(t, k) - kStep * element(direction, k));
      slope += element(*have[i], k) * element(direction, k);
      squares += element(*have[i], k) * element(*have[i], k);
    }
    const double want = 0.1 * (loss[1] - loss[0]) / (2 * kStep);
    EXPECT_GT(squares, 0) << i;
    EXPECT_LE(std::abs(slope - want), 1e-3 * (std::sqrt(squares) + std::abs(want))) << i;
  }
}

TEST(CodedBase, TakesTheBytesOfItsBlocksAndOfItsAdapters) {
  const TemporaryDirectory dir;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool tied : {false, true}) {
      const File file(dir, "llama", tied, kFusedTypes, dtype);
      Arena arena;
      file.load(file.coded, dtype, arena);
      int64_t bytes = 0, full = 0;
      for (const Unit& unit : file.coded.units) bytes += unit_cost(unit, {.dtype = dtype}).parameter_bytes;
      for (const Unit& unit : file.dense.units) full += unit_cost(unit, {.dtype = dtype}).parameter_bytes;
      EXPECT_EQ(arena.peak_total(), bytes);
      EXPECT_LT(bytes, full);
    }
}

TEST(CodedBase, NothingStaysCodedInF64OrWhereItIsTrained) {
  const TemporaryDirectory dir;
  const File file(dir, "llama", false, kFusedTypes, DType::f64);
  EXPECT_FALSE(has_stored_matrices(file.coded));
  ModelSpec trained = file.dense;
  trained.units[1].frozen = false;
  const ModelSpec some = with_stored_matrices(trained, file.path, DType::f32);
  EXPECT_FALSE(some.units[1].stored.coded);
  EXPECT_TRUE(some.units[2].stored.coded);
}

}  // namespace
}  // namespace tern
