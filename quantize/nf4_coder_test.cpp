// NF4 blocks are bitsandbytes' to the byte; NF4_1's are so behind offsets searched as published.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/io.h"
#include "base/source_dir_testing.h"
#include "formats/format_test_support.h"
#include "formats/safetensors/safetensors.h"
#include "kernels/cpu/decode.h"
#include "quantize/gptq.h"

namespace tern {
namespace {

constexpr int64_t kOut = 32, kIn = 128;
constexpr size_t kBlockBytes = 36;

template <class T>
std::vector<T> golden_numbers(const std::string& name) {
  const std::string bytes = real_io().read(source_dir() + "/tests/golden/weight_types/" + name);
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

// dev/golden/packed_weights.py
TEST(NormalFloat, CodesAndScalesAreBitsandbytes) {
  std::vector<float> x = golden_numbers<float>("nf4.numbers");
  ASSERT_EQ(static_cast<int64_t>(x.size()), kOut * kIn);
  const std::vector<std::byte> blocks = gptq_blocks(WeightType::nf4, x, kOut, kIn, {});
  const Safetensors file(source_dir() + "/tests/golden/packed/bitsandbytes.nf4.safetensors");
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  const auto codes = file.find(name), scales = file.find(name + ".absmax"), numbers = file.find("expected");
  ASSERT_TRUE(codes && scales && numbers);
  ASSERT_EQ(codes->bytes.size() / 32 * kBlockBytes, blocks.size());
  for (size_t i = 0; i < blocks.size() / kBlockBytes; ++i) {
    const std::byte* block = blocks.data() + i * kBlockBytes;
    ASSERT_EQ(std::memcmp(block, scales->bytes.data() + 4 * i, 4), 0) << "scale " << i;
    ASSERT_EQ(std::memcmp(block + 4, codes->bytes.data() + 32 * i, 32), 0) << "codes of block " << i;
  }
  ASSERT_EQ(numbers->bytes.size(), x.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(x.data(), numbers->bytes.data(), numbers->bytes.size()), 0) << "what the codes stand for";
}

// Levels times a scale: zeros, tiny and large blocks among them (dev/golden/nf4.py).
TEST(NormalFloat, WhatCodesStandForIsCodedAsThem) {
  std::vector<float> x = golden_numbers<float>("nf4.f32");
  EXPECT_EQ(gptq_blocks(WeightType::nf4, x, 16, 64, {}), golden_numbers<std::byte>("nf4.blocks"));
}

TEST(NormalFloat, TheMiddleOfTwoLevelsTakesTheLower) {
  std::vector<std::byte> steps(kBlockBytes);
  const float one = 1;
  std::memcpy(steps.data(), &one, 4);
  for (size_t i = 0; i < 8; ++i) steps[4 + i] = static_cast<std::byte>(2 * i << 4 | (2 * i + 1));
  std::vector<float> levels(64), x(64, 1.0f);
  decode_blocks(WeightType::nf4, steps, levels);
  for (size_t i = 0; i < 15; ++i) {
    const float middle = (levels[i] + levels[i + 1]) / 2;
    x[3 * i] = std::nextafter(middle, -2.0f), x[3 * i + 1] = middle, x[3 * i + 2] = std::nextafter(middle, 2.0f);
  }
  gptq_blocks(WeightType::nf4, x, 1, 64, {});
  for (size_t i = 0; i < 15; ++i) {
    EXPECT_EQ(x[3 * i], levels[i]);
    EXPECT_EQ(x[3 * i + 1], levels[i]);
    EXPECT_EQ(x[3 * i + 2], levels[i + 1]);
  }
}

// Scale, offset and codes of each block are those of the published search over bitsandbytes' codes (dev/golden/nf4.py).
TEST(NormalFloat, OffsetsAreThoseOfThePublishedSearch) {
  std::vector<float> x = golden_numbers<float>("nf4.numbers"), decoded(x.size());
  const std::vector<std::byte> blocks = gptq_blocks(WeightType::nf4_1, x, kOut, kIn, {});
  EXPECT_EQ(blocks, golden_numbers<std::byte>("nf4_1.blocks"));
  decode_blocks(WeightType::nf4_1, blocks, decoded);
  EXPECT_EQ(decoded, x);
}

TEST(NormalFloat, EqualNumbersAreTheirOffset) {
  for (const float value : {0.0f, -0.3f, 1e30f, 1e-42f}) {
    std::vector<float> x(128, value);
    const std::vector<std::byte> blocks = gptq_blocks(WeightType::nf4_1, x, 2, 64, {});
    EXPECT_EQ(x, std::vector<float>(128, value));
    float scale, offset;
    std::memcpy(&scale, blocks.data(), 4), std::memcpy(&offset, blocks.data() + 4, 4);
    EXPECT_EQ(scale, 0);
    EXPECT_EQ(offset, value);
  }
}

}  // namespace
}  // namespace tern
