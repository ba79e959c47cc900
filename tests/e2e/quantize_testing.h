#pragma once
// For tests of tern quantize: a folder with small random models, and the command's answers.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/io.h"
#include "base/json.h"
#include "base/source_dir_testing.h"
#include "model/coded_model_testing.h"
#include "model/model_files.h"
#include "tests/e2e/in_folder_testing.h"

namespace tern {

struct MethodAndType {
  const char *method, *type;
};

template <class Suite>
class QuantizesInFolder : public InFolder<Suite> {
 protected:
  using InFolder<Suite>::root_;
  using InFolder<Suite>::write;
  using InFolder<Suite>::tern;

  /// The suite's folder, with a text and the model "one".
  static void make_models(const char* name) {
    InFolder<Suite>::make_root(name);
    write("text.txt", real_io().read(trained() + "/text.txt"));
    write_random_model("one", {.layers = 1, .width = 256, .heads = 2, .hidden = 128});
  }
  static std::string trained() { return source_dir() + "/tests/golden/eval/trained"; }

  /// A Llama of random numbers around `middle`, with the trained model's tokenizer.
  struct RandomModel {
    int64_t layers, width, heads, hidden;
    double deviation = 0.05;
    float middle = 0;
  };
  static void write_random_model(const std::string& name, const RandomModel& m) {
    HfConfig c = tiny_config("llama");
    c.vocab_size = 320, c.hidden_size = m.width, c.intermediate_size = m.hidden, c.num_hidden_layers = m.layers;
    c.num_attention_heads = m.heads, c.num_key_value_heads = m.heads / 2, c.head_dim = 32;
    c.max_position_embeddings = 512;
    const ModelSpec spec = model_spec(c);
    Arena arena;
    ModelWeights weights = random_weights(spec, DType::f32, arena, 5, m.deviation);
    for_each_parameter(spec, weights, [&](const ParameterInfo&, Tensor& t) {
      for (float& x : t.span<float>()) x += m.middle;
    });
    save_model(spec, c, weights, m.middle == 0 ? DType::bf16 : DType::f32, root_ + "/" + name, real_io());
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      write(name + "/" + file, real_io().read(trained() + "/" + file));
  }

  static Json json(const std::string& rest) {
    const Outcome o = tern(rest + " --json 2>errors");
    EXPECT_EQ(o.code, 0) << rest << "\n" << real_io().read(root_ + "/errors");
    return o.code == 0 ? parse_json(o.text, "out") : Json::object();
  }
  static Json quantize(const std::string& model, const MethodAndType& as, const std::string& output) {
    const std::string method = as.method;
    return json("quantize " + model + " --method " + method +
                (method == "lcq" ? std::string(" --bits ") + (as.type + 2) : std::string(" --type ") + as.type) +
                (method == "rtn" ? "" : " --data text.txt --calibration-tokens 256") + " --output " + output);
  }
};

}  // namespace tern
