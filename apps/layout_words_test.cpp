#include "apps/layout_words.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "spec/presets.h"

namespace tern {
namespace {

TEST(LayoutWords, OneLineForWhatIsAlikeInAllLayers) {
  const ModelSpec spec = *preset_model("llama-2-7b");
  const std::string text = layout_words(spec, {.ranks = 8, .rows = 2048});
  EXPECT_NE(text.find("a micro-batch of 1 sequence, 2,048 rows\nin bf16\n"), std::string::npos) << text;
  EXPECT_NE(text.find("embed.tokens                    S(1)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("layers.*.attention.qkv.weight   S(0) of 3 sections\n"), std::string::npos) << text;
  EXPECT_NE(text.find("layers.*.mlp.down.weight        S(1)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("between units                   S(1), then 64 times S(0)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("sent by all ranks together: "), std::string::npos) << text;
}

TEST(LayoutWords, MatricesThatAreGatheredSayIt) {
  const ModelSpec spec = *preset_model("llama-2-7b");
  const LayoutQuestion many{.ranks = 8, .rows = 64 * 4096, .sequences = 64};
  EXPECT_NE(
      layout_words(spec, many).find("layers.*.mlp.up.weight          S(0) of 2 sections, gathered for the passes\n"),
      std::string::npos)
      << layout_words(spec, many);
}

TEST(LayoutWords, ValuesNameEveryParameter) {
  const ModelSpec spec = *preset_model("llama-2-7b");
  const Json json = layout_json(spec, {.ranks = 8, .rows = 2048});
  EXPECT_EQ(json["parameters"].size(), 3 + 6 * 32u);
  EXPECT_EQ(json["parameters"][2]["name"], "layers.0.attention.qkv.weight");
  EXPECT_EQ(json["parameters"][2]["kept"], "S(0) of 3 sections");
  EXPECT_EQ(json["rows_between_units"].size(), spec.units.size() - 1);
  EXPECT_GT(json["forward_bytes"].get<int64_t>(), 0);
  EXPECT_THROW(layout_json(spec, {.ranks = 3, .rows = 2048}), Error);
}

}  // namespace
}  // namespace tern
