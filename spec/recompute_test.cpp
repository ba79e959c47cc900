#include "spec/recompute.h"

#include <gtest/gtest.h>

#include "spec/presets.h"

namespace tern {
namespace {

TEST(PartRecompute, SecondProductsAreKeysOutAndOneOfThree) {
  const ModelSpec llama = *preset_model("llama-3-8b"),
                  gpt = decoder_of({.width = 96, .layers = 1, .heads = 3, .context = 7});
  for (const Unit& u : llama.units) {
    const double share = second_products_share(u);
    EXPECT_DOUBLE_EQ(share, attention_of(u) ? 0.5 : mlp_of(u) ? 1.0 / 3 : 0);
  }
  for (const Unit& u : gpt.units) EXPECT_DOUBLE_EQ(second_products_share(u), attention_of(u) || mlp_of(u) ? 0.5 : 0);
}

TEST(PartRecompute, NamesDiffer) {
  for (const PartRecompute a : kPartRecomputes)
    for (const PartRecompute b : kPartRecomputes) EXPECT_EQ(a == b, name_of(a) == name_of(b));
}

}  // namespace
}  // namespace tern
