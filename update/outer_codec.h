#pragma once
// How averages of rarely talking ranks travel: as they are; as whole numbers of 8 or 4 bits, or signs, with a scale for each block; or (power_sgd,
// update/low_rank.h) as factors.
// Source: signs and both errors fed back, as 1-bit Adam sends its momentum: Tang et al. 2021, arXiv:2102.02888 (text not seen; there the scale
// is the root mean square of a whole vector, here the mean |x| of a block, which leaves the least error).

#include <cstdint>
#include <span>
#include <string_view>

namespace tern {

enum class OuterCodec : uint8_t { none, int8, int4, sign, power_sgd };
inline constexpr std::string_view kOuterCodecNames[] = {"none", "int8", "int4", "sign", "powersgd"};
/// Whether the codec makes codes, so that encode and decode take it.
constexpr bool is_in_codes(OuterCodec c) { return c != OuterCodec::none && c != OuterCodec::power_sgd; }
inline constexpr int64_t kOuterBlock = 128;  // elements of one scale

/// Bytes of `elements` elements: each block has an f32 scale and its codes, also a last one that is shorter.
int64_t codec_bytes(OuterCodec, int64_t elements);
/// codes: round(x / s), s = a block's largest |x| / 127 (7), ties to even; or signs (zero: +), s = its mean |x|. Then
/// x -= decode(codes). A block with NaN or infinities decodes to NaN. Errors  TERN_CHECK: sizes; a codec without codes.
template <class T>
void encode(OuterCodec, std::span<T> x, std::span<uint8_t> codes);
/// x = what codes say.
template <class T>
void decode(OuterCodec, std::span<const uint8_t> codes, std::span<T> x);

}  // namespace tern
