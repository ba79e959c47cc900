#pragma once
// How averages of rarely talking ranks travel: as they are, or as whole numbers of 8 or 4 bits with a scale for each block.

#include <cstdint>
#include <span>
#include <string_view>

namespace tern {

enum class OuterCodec : uint8_t { none, int8, int4 };
inline constexpr std::string_view kOuterCodecNames[] = {"none", "int8", "int4"};
inline constexpr int64_t kOuterBlock = 128;  // elements of one scale

/// Bytes of so many elements: each block has an f32 scale and its codes, also a last one that is shorter.
int64_t coded_bytes(OuterCodec, int64_t elements);
/// x becomes codes: round(x / s) with s = largest |x| of the block / 127 (7), and what they leave out: x minus decode. Ties to even.
/// A block that holds NaN or infinities decodes to NaN. Errors  TERN_CHECK: sizes; codec none.
template <class T>
void encode(OuterCodec, std::span<T> x, std::span<uint8_t> codes);
/// x = what codes say.
template <class T>
void decode(OuterCodec, std::span<const uint8_t> codes, std::span<T> x);

}  // namespace tern
