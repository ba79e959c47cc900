// Adapters that begin with a part of the weight: together they are the weight, they begin as PEFT's (dev/golden/adapter_inits.py), and
// beside the model as it lies they are one of twice the rank.
#include "model/taken_factors.h"
#include "model/initial_weights.h"

#include "base/error.h"
#include "formats/format_test_support.h"
#include "formats/hf/config.h"
#include "formats/safetensors/safetensors.h"
#include "model/adapter_files.h"
#include "model/model_files.h"
#include "model/model_testing.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

constexpr std::array kInits{AdapterInit::pissa, AdapterInit::olora};

// scale·b·a of a branch, in f64.
std::vector<double> change_of(const Branch& b) {
  const int64_t out = b.row_end - b.row_begin, in = b.a.count() / b.rank;
  std::vector<double> change(static_cast<size_t>(out * in));
  for (int64_t o = 0; o < out; ++o)
    for (int64_t j = 0; j < in; ++j)
      for (int64_t i = 0; i < b.rank; ++i)
        change[static_cast<size_t>(o * in + j)] += b.scale * element(b.b, o * b.rank + i) * element(b.a, i * in + j);
  return change;
}

Tensor output_of(const ModelSpec& spec, const ModelWeights& weights, Arena& arena) {
  const std::vector<int32_t> tokens = random_tokens(9, spec.vocab, 1);
  const RopeTable rope = rope_table(spec, 16, 16);
  return model_forward(spec, weights, make_rows(tokens, {0, 4, 9}, &rope), nullptr, {arena});
}

TEST(TakenFactors, AndWhatIsLeftAreTheWeight) {
  for (const AdapterInit init : kInits)
    for_each_dense_variant([&](const std::string& variant, const ModelSpec& full) {
      SCOPED_TRACE(variant + std::string(", ") + std::string(name_of(init)));
      for (const ModelSpec& spec : {with_adapters(full, 2, 0.7), with_uneven_adapters(full)})
        for (const auto& [dtype, bound] : {std::pair{DType::f64, 1e-12}, {DType::f32, 1e-4}, {DType::bf16, 0.2}}) {
          Arena arena;
          ModelWeights weights = random_weights(spec, dtype, arena, 3);
          initialize_adapters(spec, weights, 7, init);
          const Tensor want = output_of(spec, weights, arena);  // B is zero
          take_factors(spec, weights, init);
          EXPECT_LE(relative_error(output_of(spec, weights, arena), want), bound) << name_of(dtype);
          for_each_linear(spec, weights, [](const ParameterInfo&, Linear& linear) { linear.branches.clear(); });
          const Tensor left = output_of(full, weights, arena);
          EXPECT_GT(relative_error(left, want), 1e-3) << "nothing was taken";
        }
    });
}

TEST(TakenFactors, AreThoseOfPeft) {
  const std::string base = golden("models/llama");
  const PeftConfig config{.targets = {.names = {"q_proj", "v_proj", "down_proj"}}, .rank = 3, .alpha = 5};
  const ModelSpec spec = with_adapters(model_spec(read_hf_config(base + "/config.json")), config, "test");
  const Safetensors of_peft(golden("adapter_inits.safetensors"));
  for (const AdapterInit init : kInits) {
    Arena arena;
    ModelWeights weights = load_weights(spec, base, DType::f32, arena);
    initialize_adapters(spec, weights, 7, init);
    ModelWeights first = load_weights(spec, base, DType::f32, arena);
    read_taken_factors(spec, base, DType::f32, init, first);
    take_factors(spec, weights, init);
    std::vector<Tensor> read, taken;
    for_each_adapter(spec, first, [&](const ParameterInfo&, Tensor& t) { read.push_back(t); });
    for_each_adapter(spec, weights, [&](const ParameterInfo&, Tensor& t) { taken.push_back(t); });
    for (size_t i = 0; i < taken.size(); ++i) EXPECT_TRUE(same_bits(read[i], taken[i]));
    size_t found = 0;
    const std::vector<AdaptedPlace> places = adapted_places(spec);
    for_each_linear(spec, weights, [&](const ParameterInfo& info, const Linear& linear) {
      for (const Branch& b : linear.branches) {
        const auto place = std::ranges::find_if(
            places, [&](const AdaptedPlace& p) { return p.unit == info.unit && p.module == b.module; });
        const auto want = of_peft.find(std::string(name_of(init)) + "." + place->path);
        if (!want) continue;
        ++found;
        const std::vector<double> change = change_of(b);
        ASSERT_EQ(want->num_elements(), static_cast<int64_t>(change.size()));
        double off = 0, norm = 0;
        for (size_t i = 0; i < change.size(); ++i) {
          float x;
          std::memcpy(&x, want->bytes.data() + i * sizeof x, sizeof x);
          off += std::pow(change[i] - static_cast<double>(x), 2), norm += std::pow(static_cast<double>(x), 2);
        }
        EXPECT_LE(std::sqrt(off / norm), 1e-5) << place->path;
      }
    });
    EXPECT_EQ(found, 3) << name_of(init);
  }
}

// What learned beside the rest of the weight says beside the whole weight what it said.
TEST(TakenFactors, BecomeAnAdapterOfTwiceTheRank) {
  const std::string base = golden("models/llama");
  for (const bool stabilized : {false, true})
    for (const AdapterInit init : kInits) {
      const PeftConfig config{.targets = {.all_linear = true}, .rank = 3, .alpha = 5, .rank_stabilized = stabilized};
      const ModelSpec full = model_spec(read_hf_config(base + "/config.json")),
                      spec = with_adapters(full, config, "test");
      Arena arena;
      ModelWeights weights = load_weights(spec, base, DType::f64, arena);
      initialize_adapters(spec, weights, 7, init);
      const Tensor untrained = output_of(full, weights, arena);
      take_factors(spec, weights, init);
      for_each_adapter(spec, weights, [](const ParameterInfo& info, Tensor& t) {
        for (int64_t i = 0; i < t.count(); ++i)
          set_element(t, i, element(t, i) + 0.05 * random_normal({3, hash_name(info.name)}, static_cast<uint64_t>(i)));
      });
      const Tensor want = output_of(spec, weights, arena);
      EXPECT_GT(relative_error(untrained, want), 1e-2);
      const WholeAdapter whole = with_taken_factors(spec, config, base, DType::f64, init, weights, arena);
      // Its configuration says the same scale of twice the rank.
      const ModelSpec doubled = with_adapters(full, whole.config, "test");
      EXPECT_EQ(doubled.units[1].adapters.front().rank, 6);
      EXPECT_DOUBLE_EQ(doubled.units[1].adapters.front().scale, spec.units[1].adapters.front().scale);
      ModelWeights again = load_weights(doubled, base, DType::f64, arena);
      std::vector<std::vector<Branch>> branches;
      ModelWeights made = whole.weights;
      for_each_linear(doubled, made, [&](const ParameterInfo&, const Linear& l) { branches.push_back(l.branches); });
      size_t at = 0;
      for_each_linear(doubled, again, [&](const ParameterInfo&, Linear& l) { l.branches = branches[at++]; });
      EXPECT_LE(relative_error(output_of(doubled, again, arena), want), 1e-12);
    }
}

TEST(TakenFactors, OfMoreDirectionsThanAMatrixHasAreRefused) {
  const ModelSpec spec = with_adapters(model_spec(tiny_config("llama")), 4000);
  Arena arena;
  ModelWeights weights = random_weights(spec, DType::f32, arena, 3);
  for (const AdapterInit init : kInits) EXPECT_THROW(take_factors(spec, weights, init), Error);
}

// A and B have different directions of one orthogonal basis, so their product is nothing, and neither is zero.
TEST(OrthogonalInit, AddsNothingThoughNeitherFactorIsZero) {
  const ModelSpec spec = with_adapters(model_spec(tiny_config("llama")), 6);
  Arena arena;
  ModelWeights weights = random_weights(spec, DType::f64, arena, 3);
  initialize_adapters(spec, weights, 7, AdapterInit::orthogonal);
  double squares = 0;
  int64_t count = 0;
  for_each_linear(spec, weights, [&](const ParameterInfo&, const Linear& linear) {
    for (const Branch& b : linear.branches) {
      for (const double x : change_of(b)) EXPECT_LE(std::abs(x), 1e-15);
      for (const Tensor& t : {b.a, b.b})
        for (int64_t i = 0; i < t.count(); ++i, ++count) squares += std::pow(element(t, i), 2);
    }
  });
  // Half of the directions, a tenth of normal numbers: 0.01·(rank/2)/rank on average.
  EXPECT_NEAR(squares / static_cast<double>(count), 0.005, 0.0005);
  const ModelSpec odd = with_adapters(model_spec(tiny_config("llama")), 3);
  ModelWeights of_odd = random_weights(odd, DType::f64, arena, 3);
  EXPECT_THROW(initialize_adapters(odd, of_odd, 7, AdapterInit::orthogonal), Error);
}

}  // namespace
}  // namespace tern
