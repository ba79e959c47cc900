// Adapters of means merged into offsets of codes: no other byte changes, each offset is the rounded sum, and the model is
// the one with the branches.
#include "model/merge_offsets.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "formats/format_test_support.h"
#include "model/allocate_weights.h"
#include "model/coded_base.h"
#include "model/coded_model_testing.h"
#include "model/merge_adapters.h"
#include "model/model_files.h"
#include "model/read_parameter.h"
#include "model/save_coded.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

struct Base {
  ModelSpec plain, adapted;
  std::string path, merged;
  int64_t group;

  // A directory of tern's own, or a GGUF file, whose queries' and keys' heads are interleaved.
  Base(const TemporaryDirectory& in, WeightType type) : group(row_of(type).block_elements) {
    const HfConfig config = coded_config("llama", false);
    plain = model_spec(config);
    adapted = with_adapters(plain, 3, 0.7);
    const std::string name(name_of(type));
    const bool own = row_of(type).gguf == kNotInGguf;
    path = in / (own ? name : name + ".gguf"), merged = in / (own ? name + "-merged" : name + "-merged.gguf");
    if (!own) {
      write_coded_model(config, {type}, path);
      return;
    }
    Arena arena;
    const ModelWeights weights = random_weights(plain, DType::f32, arena, 3);
    std::mt19937_64 random(7);
    CodedMatrix kept;
    const CodeMatrix code = [&](const ParameterInfo& info, WeightType as) -> const CodedMatrix& {
      kept.rows = coded_blocks(as, info.shape.count() / row_of(as).block_elements, 0.3f, random);
      return kept;
    };
    save_coded(plain, config, parameters_of(plain, weights), code, {type, WeightType::f32}, DType::f32, path,
               real_io());
    make_dirs(real_io(), merged);
  }
  // Branches that read a group's inputs alike.
  void fill(ModelWeights& weights, DType dtype, Arena& arena) const {
    for_each_adapter(adapted, weights, [&](const ParameterInfo& info, Tensor& t) {
      if (t.empty()) t = arena.allocate(dtype, info.shape, MemoryClass::weights);
      const bool is_a = info.name.ends_with(".a");
      for (int64_t i = 0; i < t.count(); ++i)
        set_element(t, i,
                    static_cast<float>(
                        0.03 * random_normal({hash_name(info.name), 1}, static_cast<uint64_t>(is_a ? i / group : i))));
    });
  }
  ModelWeights branches(Arena& arena) const {
    ModelWeights weights = empty_weights(adapted);
    fill(weights, DType::f32, arena);
    return weights;
  }
};

// s·B·A of a row at a group, as the formula has it.
double added(const Linear& linear, int64_t row, int64_t at) {
  double sum = 0;
  for (const Branch& b : linear.branches)
    for (int64_t r = 0; r < b.rank && b.row_begin <= row && row < b.row_end; ++r)
      sum += b.scale * element(b.b, (row - b.row_begin) * b.rank + r) * element(b.a, r * linear.in + at);
  return sum;
}

void expect_offsets_moved(const Base& base, WeightType type) {
  Arena arena;
  ModelWeights branches = base.branches(arena);
  const OffsetMerge merged = merge_into_offsets(base.adapted, branches, base.path, base.merged, real_io());
  EXPECT_EQ(merged.error.matrices, 4);
  const ModelSpec stored = with_stored_matrices(with_adapters(base.plain, 0), base.path, DType::f32);
  ModelWeights before = load_weights(stored, base.path, DType::f32, arena),
               after = load_weights(stored, base.merged, DType::f32, arena);
  std::vector<Linear*> adapted, was;
  for_each_linear(base.adapted, branches, [&](const ParameterInfo&, Linear& l) { adapted.push_back(&l); });
  for_each_linear(stored, before, [&](const ParameterInfo&, Linear& l) { was.push_back(&l); });
  size_t i = 0;
  int64_t offsets = 0;
  const bool wide = type != WeightType::q4_1;
  const int64_t block = row_of(type).block_bytes, begin = wide ? 4 : 2, size = wide ? 4 : 2;
  for_each_linear(stored, after, [&](const ParameterInfo& info, Linear& is) {
    const Linear &old = *was[i], &with = *adapted[i];
    ++i;
    if (with.branches.empty()) return;
    const auto &from = std::get<CodedWeight>(old.weight).pieces, &to = std::get<CodedWeight>(is.weight).pieces;
    int64_t first = 0;
    for (size_t p = 0; p < from.size(); first += from[p++].rows)
      for (int64_t r = 0; r < from[p].rows; ++r)
        for (int64_t g = 0; g < is.in / base.group; ++g) {
          const int64_t at = (r * (is.in / base.group) + g) * block, d = from[p].head_dim;
          const auto* x = static_cast<const std::byte*>(from[p].bytes.data()) + at;
          const auto* y = static_cast<const std::byte*>(to[p].bytes.data()) + at;
          ASSERT_EQ(std::memcmp(x, y, static_cast<size_t>(begin)), 0) << info.name << ": a scale";
          ASSERT_EQ(std::memcmp(x + begin + size, y + begin + size, static_cast<size_t>(block - begin - size)), 0)
              << info.name << ": codes";
          const int64_t row = first + (d > 0 ? r / d * d + r % d % 2 * (d / 2) + r % d / 2 : r);
          const double add = added(with, row, g * base.group);
          ++offsets;
          if (wide) {
            float o, moved;
            std::memcpy(&o, x + begin, sizeof o), std::memcpy(&moved, y + begin, sizeof moved);
            // the sums of the test and of the code may be taken in another order: half an ulp and 1e-15
            ASSERT_NEAR(moved, o + add, 0x1p-24 * std::abs(o + add) + 1e-15) << info.name;
          } else {
            f16 o, moved;
            std::memcpy(&o, x + begin, sizeof o), std::memcpy(&moved, y + begin, sizeof moved);
            ASSERT_NEAR(to_float(moved), to_float(o) + add, 0x1p-11 * std::abs(to_float(o) + add) + 0x1p-25)
                << info.name;
          }
        }
  });
  EXPECT_EQ(merged.offsets, offsets);
  EXPECT_GT(offsets, 0);
}

TEST(MergeOffsets, MovesOffsetsAloneAndRoundsOnce) {
  const TemporaryDirectory dir;
  for (const WeightType type : {WeightType::u4, WeightType::u3, WeightType::u2, WeightType::nf4_1, WeightType::q4_1}) {
    SCOPED_TRACE(name_of(type));
    expect_offsets_moved(Base(dir, type), type);
  }
}

// A block's offset, and half a unit in its last place: what the one rounding of a sum to it may take.
struct Offset {
  double value, half_unit;
};
Offset offset_of(WeightType type, const std::byte* block) {
  int exponent = 0;
  if (type == WeightType::q4_1) {
    f16 o;
    std::memcpy(&o, block + 2, sizeof o);
    std::frexp(to_float(o), &exponent);
    return {to_float(o), std::ldexp(1.0, std::max(exponent, -13) - 12)};
  }
  float o;
  std::memcpy(&o, block + 4, sizeof o);
  std::frexp(o, &exponent);
  return {o, std::ldexp(1.0, exponent - 25)};
}

// Each weight that the merged file decodes to is s·q + o + δ, of NF4_1 s·T[q] + o + δ, but for the one rounding of its offset.
void expect_weights_moved(WeightType type) {
  SCOPED_TRACE(name_of(type));
  const TemporaryDirectory dir;
  const Base base(dir, type);
  Arena arena;
  ModelWeights branches = base.branches(arena);
  const OffsetMerge merged = merge_into_offsets(base.adapted, branches, base.path, base.merged, real_io());
  const ModelWeights before = load_weights(base.plain, base.path, DType::f32, arena),
                     after = load_weights(base.plain, base.merged, DType::f32, arena);
  const ModelSpec stored = with_stored_matrices(with_adapters(base.plain, 0), base.merged, DType::f32);
  ModelWeights coded = load_weights(stored, base.merged, DType::f32, arena), was = before, is = after;
  std::vector<Linear*> from, to, with;
  for_each_linear(base.plain, was, [&](const ParameterInfo&, Linear& l) { from.push_back(&l); });
  for_each_linear(base.plain, is, [&](const ParameterInfo&, Linear& l) { to.push_back(&l); });
  for_each_linear(base.adapted, branches, [&](const ParameterInfo&, Linear& l) { with.push_back(&l); });
  double largest = 0, share = 0;
  size_t i = 0;
  for_each_linear(stored, coded, [&](const ParameterInfo& info, Linear& blocks) {
    const size_t at = i++;
    if (with[at]->branches.empty()) return;
    const Tensor &x = dense_rows(*from[at]), &y = dense_rows(*to[at]);
    const std::vector<CodedPiece>& pieces = std::get<CodedWeight>(blocks.weight).pieces;
    int64_t first = 0;
    for (const CodedPiece& piece : pieces) {
      for (int64_t r = 0; r < piece.rows; ++r)
        for (int64_t g = 0; g < blocks.in / base.group; ++g) {
          const auto* block = static_cast<const std::byte*>(piece.bytes.data()) +
                              (r * (blocks.in / base.group) + g) * row_of(type).block_bytes;
          const int64_t d = piece.head_dim, row = first + (d > 0 ? r / d * d + r % d % 2 * (d / 2) + r % d / 2 : r);
          const double add = added(*with[at], row, g * base.group), bound = offset_of(type, block).half_unit;
          for (int64_t k = row * blocks.in + g * base.group; k < row * blocks.in + (g + 1) * base.group; ++k) {
            const double want = element(x, k) + add, error = std::abs(element(y, k) - want);
            // Both numbers were rounded to f32 by the decoder.
            const double decoded = 0x1p-24 * (std::abs(element(x, k)) + std::abs(element(y, k)));
            ASSERT_LE(error, bound + decoded + 1e-15) << info.name << " " << k;
            largest = std::max(largest, error - decoded), share = std::max(share, error / bound);
          }
        }
      first += piece.rows;
    }
  });
  EXPECT_GE(merged.largest, largest);
  EXPECT_GT(share, 0.9) << "no weight comes near the bound: nothing is tested";
  if (type == WeightType::q4_1) EXPECT_LE(merged.largest, largest * 1.01 + 1e-6);  // above what decoding rounds
}

TEST(MergeOffsets, EveryWeightIsWithinOneRoundingOfItsOffset) {
  expect_weights_moved(WeightType::q4_1);
  expect_weights_moved(WeightType::nf4_1);
}

TEST(MergeOffsets, GivesTheLogitsOfTheBranches) {
  const TemporaryDirectory dir;
  const std::vector<int32_t> tokens = random_tokens(9, 37, 4);
  for (const WeightType type : {WeightType::u4, WeightType::u3, WeightType::u2, WeightType::nf4_1}) {
    SCOPED_TRACE(name_of(type));
    const Base base(dir, type);
    Arena arena;
    const Compute c{arena};
    ModelWeights branches = base.branches(arena);
    merge_into_offsets(base.adapted, branches, base.path, base.merged, real_io());
    // In f64 the numbers s·q + (o + δ) are those of the base with δ added, and they are the branches.
    ModelWeights exact = load_weights(base.adapted, base.path, DType::f64, arena);
    base.fill(exact, DType::f64, arena);
    const Tensor want = logits_of(base.adapted, exact, tokens, c);
    merge_adapters(base.adapted, exact, DType::f64);
    EXPECT_LE(relative_error(logits_of(base.plain, exact, tokens, c), want), 1e-12);
    // The file's, with offsets of f32.
    const ModelWeights file = load_weights(base.plain, base.merged, DType::f32, arena);
    EXPECT_LE(relative_error(logits_of(base.plain, file, tokens, c), want), 1e-5);
    const ModelWeights untouched = load_weights(base.plain, base.path, DType::f32, arena);
    EXPECT_GT(relative_error(logits_of(base.plain, untouched, tokens, c), want), 1e-3) << "the adapter does nothing";
  }
}

TEST(MergeOffsets, RefusesWhereSomethingWouldBeLost) {
  const TemporaryDirectory dir;
  const auto refusal = [&](const Base& base, ModelWeights& branches) -> std::string {
    try {
      merge_into_offsets(base.adapted, branches, base.path, base.merged, real_io());
    } catch (const Error& e) { return e.what(); }
    return "";
  };
  Arena arena;
  const Base zero(dir, WeightType::q4_0), own(dir, WeightType::u4);
  ModelWeights pooled = zero.branches(arena), apart = own.branches(arena);
  EXPECT_NE(refusal(zero, pooled).find("zero is a code"), std::string::npos);
  Tensor& a = *trained_tensors(own.adapted, apart).front();
  set_element(a, 1, element(a, 1) + 1e-3);
  EXPECT_NE(refusal(own, apart).find("--method qalora"), std::string::npos);
  EXPECT_FALSE(real_io().stat(join_path(own.merged, "model.safetensors"))) << "nothing is written";
}

}  // namespace
}  // namespace tern
