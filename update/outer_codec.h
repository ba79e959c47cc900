#pragma once
// How ranks of --outer send what they average: as it is; as codes, which are integers of 8 or 4 bits, or signs, with a scale for each block; or
// as factors (power_sgd, update/low_rank.h).
// Source of the signs, and of feeding both errors back: the momentum in 1-bit Adam, Tang et al. 2021, arXiv:2102.02888 (text not seen; its scale
// is the root mean square of a whole vector; here it is the mean |x| of a block, which leaves the least error).

#include <cstdint>
#include <span>
#include <string_view>

namespace tern {

enum class OuterCodec : uint8_t { none, int8, int4, sign, power_sgd };
inline constexpr std::string_view kOuterCodecNames[] = {"none", "int8", "int4", "sign", "powersgd"};
/// Whether the codec makes codes. encode and decode take only such codecs.
constexpr bool is_in_codes(OuterCodec c) { return c != OuterCodec::none && c != OuterCodec::power_sgd; }
inline constexpr int64_t kOuterBlock = 128;  // elements that share one scale

/// Bytes of `elements` elements. Each block has an f32 scale and room for kOuterBlock codes, also a last block that is shorter.
int64_t codec_bytes(OuterCodec, int64_t elements);
/// int8 (int4): codes = round(x / s), ties to even, s = a block's largest |x| / 127 (7). sign: signs (zero: +), s = the block's mean |x|.
/// Then x -= decode(codes). A block with NaN or infinities decodes to NaN. Errors  TERN_CHECK: sizes; a codec without codes.
template <class T>
void encode(OuterCodec, std::span<T> x, std::span<uint8_t> codes);
/// x becomes the values that the codes stand for. Errors: as encode.
template <class T>
void decode(OuterCodec, std::span<const uint8_t> codes, std::span<T> x);

}  // namespace tern
