// NF4 as bitsandbytes codes it: a block's scale is its largest magnitude, and each number divided by it takes the nearest level.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "kernels/cpu/decode.h"
#include "quantize/row_coder.h"

namespace tern {
namespace {

constexpr size_t kLevels = 16, kBlock = 64;
using Block = std::array<std::byte, 36>;  // f32 scale, then codes: kernels/cpu/decode_uniform_isa.cpp

Block block_of(float scale, const std::array<uint8_t, kBlock>& codes) {
  Block block;
  std::memcpy(block.data(), &scale, sizeof scale);
  for (size_t i = 0; i < kBlock / 2; ++i) block[4 + i] = static_cast<std::byte>(codes[2 * i] << 4 | codes[2 * i + 1]);
  return block;
}

// What the decoder makes of codes 0 to 15 at scale 1.
std::array<float, kLevels> levels_of_nf4() {
  std::array<uint8_t, kBlock> codes{};
  for (size_t i = 0; i < kLevels; ++i) codes[i] = static_cast<uint8_t>(i);
  std::array<float, kBlock> numbers;
  decode_blocks(WeightType::nf4, block_of(1, codes), numbers);
  std::array<float, kLevels> levels;
  std::copy_n(numbers.begin(), kLevels, levels.begin());
  return levels;
}

// Which codes: bitsandbytes 0.50, backends/default/ops.py, quantize_4bit. A number in the middle of two levels takes the lower.
class Nf4Coder : public RowCoder {
 public:
  Nf4Coder() : levels_(levels_of_nf4()) {
    for (size_t i = 0; i + 1 < kLevels; ++i) middles_[i] = (levels_[i] + levels_[i + 1]) / 2;
  }

  void begin_row(std::span<const float>, std::span<const float>, std::string&) override {}
  void fit(std::span<const float> x, std::span<const float>) override {
    scale_ = 0;
    for (const float v : x) scale_ = std::max(scale_, std::fabs(v));
    inverse_ = 1 / std::max(scale_, 1e-38f);
  }
  float code(size_t j, float x) override {
    const auto below = std::ranges::lower_bound(middles_, x * inverse_) - middles_.begin();
    codes_[j] = static_cast<uint8_t>(below);
    return scale_ * levels_[static_cast<size_t>(below)];
  }
  void end_group(std::string& out) override {
    const Block block = block_of(scale_, codes_);
    out.append(reinterpret_cast<const char*>(block.data()), block.size());
  }

 private:
  std::array<float, kLevels> levels_;
  std::array<float, kLevels - 1> middles_;
  std::array<uint8_t, kBlock> codes_{};
  float scale_ = 0, inverse_ = 0;
};

}  // namespace

std::unique_ptr<RowCoder> nf4_coder() { return std::make_unique<Nf4Coder>(); }

}  // namespace tern
