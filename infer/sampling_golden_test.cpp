// The filters against transformers' own (tests/golden/sampling.json, made by dev/golden/sampling.py).
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/source_dir_testing.h"
#include "infer/sampling.h"

namespace tern {
namespace {

TEST(SamplingGolden, FiltersEqualTransformers) {
  const Json cases = read_json_file(source_dir() + "/tests/golden/sampling.json");
  ASSERT_GE(cases.size(), 18u);
  for (const Json& c : cases) {
    SCOPED_TRACE(c["options"].dump());
    SamplingOptions options;
    options.temperature = c["options"].value("temperature", 1.0);
    options.top_k = c["options"].value("top_k", 0);
    options.top_p = c["options"].value("top_p", 1.0);
    options.min_p = c["options"].value("min_p", 0.0);
    options.repetition_penalty = c["options"].value("repetition_penalty", 1.0);
    auto logits = c["logits"].get<std::vector<float>>();
    apply_penalties(options, c["history"].get<std::vector<int32_t>>(), 0, logits);
    const auto got = candidates(options, logits);
    const auto ids = c["ids"].get<std::vector<int32_t>>();
    const auto want = c["probabilities"].get<std::vector<double>>();
    ASSERT_EQ(got.size(), ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(got[i].first, ids[i]);
      EXPECT_NEAR(got[i].second, want[i],
                  2e-6);  // the reference divides by the temperature in f32: |logit|·2^-24 in the exponent
    }
  }
}

}  // namespace
}  // namespace tern
