// Parameters one at a time: what load_weights has, and errors of what was rounded.
#include "model/parameter_reader.h"

#include "base/io.h"
#include "formats/format_test_support.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/model.h"
#include "formats/hf/config.h"
#include "model/model_files.h"
#include "model/model_testing.h"
#include "model/read_parameter.h"
#include "model/rounding_error.h"
#include "model/save_gguf.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

struct GoldenFiles {
  HfConfig config;
  ModelSpec spec;
  std::string path;
  explicit GoldenFiles(const std::string& name)
      : config(read_hf_config(golden("models/" + name + "/config.json"))),
        spec(model_spec(config)),
        path(golden("models/" + name)) {}
  std::string as_gguf(const TemporaryDirectory& dir, const GgufTypes& types, int64_t* as_f16 = nullptr) const {
    Arena arena;
    ParameterReader reader(spec, path);
    GgufMetadata metadata;
    add_gguf_config(metadata, config);
    metadata.add("tokenizer.ggml.model", "none");
    const GgufSaved saved = save_gguf(
        spec, config, [&](const ParameterInfo& info) { return reader.read(info, DType::f32, arena); }, types, metadata,
        dir / "m.gguf", real_io());
    if (as_f16) *as_f16 = saved.as_f16;
    return dir / "m.gguf";
  }
};

TEST(ParameterReader, ReadsWhatLoadWeightsLoadsAndHoldsOneAtATime) {
  const TemporaryDirectory dir;
  for (const char* name : {"llama", "llama_tied", "gpt2"})
    for (const bool gguf : {false, true}) {
      SCOPED_TRACE(std::string(name) + (gguf ? ", GGUF" : ""));
      const GoldenFiles g(name);
      const std::string path = gguf ? g.as_gguf(dir, {WeightType::f16, WeightType::f32}) : g.path;
      Arena whole, one;
      ModelWeights weights = load_weights(g.spec, path, DType::f32, whole);
      ParameterReader reader(g.spec, path);
      int64_t largest = 0;
      for_each_parameter(g.spec, weights, [&](const ParameterInfo& info, Tensor& t) {
        largest = std::max(largest, t.bytes());
        EXPECT_TRUE(same_bits(reader.read(info, DType::f32, one), t)) << info.name;
      });
      EXPECT_EQ(one.peak_total(), largest);
    }
}

TEST(ParameterReader, FilesThatDoNotBelongToTheModelAreRefusedAtOnce) {
  const GoldenFiles g("llama"), other("gpt2");
  EXPECT_TRUE(throws(ErrorKind::bad_file, "model.embed_tokens.weight", [&] { ParameterReader(g.spec, other.path); }));
}

TEST(RoundingError, OfEachTypeStaysWithinHalfAStep) {
  const TemporaryDirectory dir;
  const GoldenFiles g("llama");
  // Of numbers that fill ±m evenly a step of s leaves s/√12 of m/√3: s/2m. Weights are denser near 0, so a little more.
  struct Case {
    WeightType type;
    double steps;  // between −m and m
  };
  double before = 0;
  for (const Case& c : {Case{WeightType::q8_0, 254}, {WeightType::q5_1, 31}, {WeightType::q4_1, 15}}) {
    Arena arena;
    ParameterReader from(g.spec, g.path);
    ParameterReader to(g.spec, g.as_gguf(dir, {c.type, c.type}));
    int64_t seen = 0;
    const std::vector<RoundingError> errors =
        rounding_errors(g.spec, from, to, arena, [&](int64_t done) { seen = done; });
    EXPECT_EQ(seen, static_cast<int64_t>(errors.size()));
    const RoundingError total = total_of(errors);
    EXPECT_EQ(total.elements, num_parameters(g.spec));
    EXPECT_GT(total.relative(), before) << name_of(c.type);
    EXPECT_LT(total.relative(), 2.5 / c.steps) << name_of(c.type);
    before = total.relative();
    for (const RoundingError& e : errors)
      if (e.parameter.find("norm") != std::string::npos) EXPECT_EQ(e.different, 0) << e.parameter;
  }
}

TEST(RoundingError, TablesHaveATypeOfTheirOwnAndRowsThatFillNoBlockAreF16) {
  const TemporaryDirectory dir;
  const GoldenFiles g("llama");
  int64_t as_f16 = -1;
  const Gguf file(g.as_gguf(dir, {WeightType::q4_0, WeightType::q8_0}, &as_f16));
  EXPECT_EQ(file.find_tensor("token_embd.weight")->type->name, "Q8_0");
  EXPECT_EQ(file.find_tensor("output.weight")->type->name, "Q8_0");
  EXPECT_EQ(file.find_tensor("blk.0.attn_q.weight")->type->name, "Q4_0");
  EXPECT_EQ(file.find_tensor("blk.0.attn_norm.weight")->type->name, "F32");
  int64_t halves = 0;
  for (const GgufTensor& t : file.tensors()) halves += t.type->name == "F16";
  EXPECT_EQ(halves, as_f16);
}

}  // namespace
}  // namespace tern
