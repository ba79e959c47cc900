// The memory forecast of weights that stay coded is what is counted.
#include "formats/format_test_support.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "model/coded_model_testing.h"

namespace tern {
namespace {

TEST(CodedFit, TheForecastOfCodedWeightsIsWhatIsCounted) {
  const TemporaryDirectory dir;
  for (const bool tied : {false, true})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const std::string path = dir / "m.gguf";
      write_coded_model(coded_config("llama", tied), {WeightType::q4_0, WeightType::f32, WeightType::q6_k}, path);
      const ModelDescription model = describe_model(path, dtype);
      const CodedBytes coded = coded_bytes(model.spec, path, dtype);
      const InferenceFit fit = inference_fit(model.spec, dtype, {.context = 32, .iteration_tokens = 8}, coded);
      Arena arena;
      const ModelWeights weights = load_for_inference(model, arena, place_of(coded));
      EXPECT_EQ(arena.current_total(), fit.weights) << tied << name_of(dtype);
      EXPECT_EQ(arena.peak_total(), fit.loading_peak) << tied << name_of(dtype);
      std::filesystem::remove(path);
    }
}

TEST(CodedFit, WeightsStayCodedWhereDecodedOnesDoNotFit) {
  const TemporaryDirectory dir;
  const std::string path = dir / "m.gguf";
  write_coded_model(coded_config("llama", false), {WeightType::q4_0}, path);
  const ModelDescription model = describe_model(path, DType::f32);
  const InferenceNeeds needs{.context = 32, .iteration_tokens = 8};
  const int64_t decoded = inference_fit(model.spec, DType::f32, needs).total();
  EXPECT_TRUE(coded_to_fit(model, needs, {decoded, "the test"}).empty());
  const CodedBytes coded = coded_to_fit(model, needs, {decoded - 1, "the test"});
  ASSERT_FALSE(coded.empty());
  EXPECT_LT(inference_fit(model.spec, DType::f32, needs, coded).total(), decoded / 2);
  EXPECT_THROW(check_fit(model.spec, DType::f32, needs, {decoded - 1, "the test"}), Error);
  check_fit(model.spec, DType::f32, needs, {decoded - 1, "the test"}, coded);
}

}  // namespace
}  // namespace tern
