// A directory that GPTQ packed, by the verbs that read weights.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "model/hf_quantized_testing.h"
#include "tests/e2e/in_folder_testing.h"

namespace tern {
namespace {

class Packed : public InFolder<Packed> {
 protected:
  static void SetUpTestSuite() {
    make_root("packed");
    std::string text;
    for (int i = 0; i < 3000; ++i) text += i % 7 == 6 ? "the end.\n" : i % 3 == 0 ? "a small word " : "and another ";
    write("text.txt", text);
    ASSERT_EQ(tern("tokenize --train --vocab-size 300 --input text.txt --output tok 2>&1").code, 0);
    HfQuantizedDirectory d(R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": false})", 300);
    add_gptq_layers(d, true, false);
    d.write();
    ASSERT_EQ(
        run_shell("cp -r " + d.dir.path() + " " + root_ + "/gptq && cp " + root_ + "/tok/* " + root_ + "/gptq").code,
        0);
  }
  static std::string answer(const std::string& command) {
    const Outcome o = tern(command + " 2>errors </dev/null");
    EXPECT_EQ(o.code, 0) << command << "\n" << real_io().read(root_ + "/errors");
    return o.text;
  }
};

TEST_F(Packed, EveryVerbReadsItAsTheNumbersThatItStandsFor) {
  answer("export gptq --dtype f32 --output numbers");
  const std::string write = " --dtype f32 --prompt 'a small' --max-tokens 8 --temperature 0 --ignore-eos --json";
  EXPECT_EQ(parse_json(answer("generate gptq" + write), "packed")["choices"],
            parse_json(answer("generate numbers" + write), "numbers")["choices"]);
  const std::string eval = " --dtype f32 --data text.txt --max-tokens 600 --json";
  EXPECT_EQ(parse_json(answer("eval gptq" + eval), "packed")["loss"],
            parse_json(answer("eval numbers" + eval), "numbers")["loss"]);
  EXPECT_NE(answer("inspect gptq").find("Q4_0"), std::string::npos);
  EXPECT_EQ(answer("embed gptq --text 'a small' --dtype f32"), answer("embed numbers --text 'a small' --dtype f32"));
  answer("quantize gptq --type q8_0 --output again.gguf");
}

}  // namespace
}  // namespace tern
