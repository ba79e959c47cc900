// NF4 as bitsandbytes codes it: a block's scale is its largest magnitude, and each number divided by it takes the nearest level.
// NF4_1 is NF4 of the numbers less an offset.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "kernels/cpu/decode.h"
#include "quantize/nf4_offset.h"
#include "quantize/row_coder.h"

namespace tern {
namespace {

constexpr size_t kLevels = 16, kBlock = 64;
using Codes = std::array<uint8_t, kBlock>;
using PackedCodes = std::array<std::byte, kBlock / 2>;  // kernels/cpu/decode_uniform_isa.cpp

PackedCodes packed(const Codes& codes) {
  PackedCodes bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(codes[2 * i] << 4 | codes[2 * i + 1]);
  return bytes;
}

// What the decoder makes of codes 0 to 15 at scale 1.
std::array<float, kLevels> levels_of_nf4() {
  Codes codes{};
  for (size_t i = 0; i < kLevels; ++i) codes[i] = static_cast<uint8_t>(i);
  std::array<std::byte, 4 + kBlock / 2> block;
  const float one = 1;
  std::memcpy(block.data(), &one, sizeof one);
  std::ranges::copy(packed(codes), block.begin() + sizeof one);
  std::array<float, kBlock> numbers;
  decode_blocks(WeightType::nf4, block, numbers);
  std::array<float, kLevels> levels;
  std::copy_n(numbers.begin(), kLevels, levels.begin());
  return levels;
}

// Which codes: bitsandbytes 0.50, backends/default/ops.py, quantize_4bit. A number in the middle of two levels takes the lower.
class Nf4Coder : public RowCoder {
 public:
  explicit Nf4Coder(WeightType type) : has_offset_(type == WeightType::nf4_1), levels_(levels_of_nf4()) {
    for (size_t i = 0; i + 1 < kLevels; ++i) middles_[i] = (levels_[i] + levels_[i + 1]) / 2;
  }

  void begin_row(std::span<const float>, std::span<const float>, std::string&) override {}
  void fit(std::span<const float> x, std::span<const float>) override {
    if (has_offset_) offset_ = offset_of_most_information(x, middles_);
    scale_ = 0;
    for (const float v : x) scale_ = std::max(scale_, std::fabs(v - offset_));
    inverse_ = 1 / std::max(scale_, 1e-38f);
  }
  float code(size_t j, float x) override {
    const auto below = std::ranges::lower_bound(middles_, (x - offset_) * inverse_) - middles_.begin();
    codes_[j] = static_cast<uint8_t>(below);
    const float number = scale_ * levels_[static_cast<size_t>(below)];
    return has_offset_ ? number + offset_ : number;
  }
  void end_group(std::string& out) override {
    const PackedCodes codes = packed(codes_);
    out.append(reinterpret_cast<const char*>(&scale_), sizeof scale_);
    if (has_offset_) out.append(reinterpret_cast<const char*>(&offset_), sizeof offset_);
    out.append(reinterpret_cast<const char*>(codes.data()), codes.size());
  }

 private:
  bool has_offset_;
  std::array<float, kLevels> levels_;
  std::array<float, kLevels - 1> middles_;
  Codes codes_{};
  float scale_ = 0, inverse_ = 0, offset_ = 0;
};

}  // namespace

std::unique_ptr<RowCoder> nf4_coder(WeightType type) { return std::make_unique<Nf4Coder>(type); }

}  // namespace tern
