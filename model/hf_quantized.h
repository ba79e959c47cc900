#pragma once
// Finds matrices that other programs quantized and packed into integers (formats/hf/packing.h) among a directory's
// tensors, and turns them into rows of numbers, or into rows of blocks of a weight type that holds exactly these numbers.
//   GPTQ               NAME.qweight I32 (in·b/32, out), .qzeros I32 (groups, out·b/32), .scales (groups, out), .g_idx I32 (in): b bits of
//                      a code in a stream along the inputs; x = s·(q − z); the file stores z − 1, but z itself in "gptq_v2"
//   AWQ                NAME.qweight I32 (in, out/8), .qzeros I32 (groups, out/8), .scales (groups, out): an integer holds 8 columns, in the order
//                      0 2 4 6 1 3 5 7 from its lowest nibble on
//   compressed-tensors NAME.weight_packed I32 (out, ⌈in·b/32⌉), .weight_zero_point I32 (⌈out·b/32⌉, groups), .weight_scale (out, groups);
//                      or NAME.weight I8 (out, in), .weight_zero_point I8 (out, groups);
//                      or FP4: NAME.weight_packed U8 (out, in/2), the lower nibble first, .weight_scale U8 (out, in/32): 2^(e − 127) (MXFP4)
//   mxfp4              NAME_blocks U8 (experts, out, in/32, 16), NAME_scales U8 (experts, out, in/32): the same FP4, of all experts (gpt-oss)
//   bitsandbytes       NAME.weight U8 (out·in/2, 1), .weight.absmax, and .weight.nested_… where absmax is coded itself
// Source: the packages that formats/hf/packing.h names; goldens by dev/golden/packed_weights.py.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/weight_type.h"
#include "formats/hf/packing.h"
#include "formats/safetensors/index.h"
#include "model/fragment.h"
#include "model/weights.h"

namespace tern {

struct HfQuantizedMatrix {
  HfPacking packing{};
  std::string name;  // without ".weight"
  int64_t out = 0, in = 0, bits = 0;
  int64_t groups = 0;                      // along the inputs, each with a scale; all of one size without `order`
  TensorView codes, scales;                // scales: f32, f16 or bf16, (groups, out) or (out, groups); NF4: absmax
  std::optional<TensorView> zeros, order;  // order: the group of each input
  // NF4: `block` numbers that follow each other in the row-major matrix share a scale. If scales are coded, `nested_block` of them share a scale:
  int64_t block = 0, nested_block = 0;  // scale i = nested_map[code i]·nested[i / nested_block] + nested_offset
  std::optional<TensorView> nested, nested_map;
  float nested_offset = 0;
  std::vector<std::string> tensors;  // the names in the file of all tensors that make up the matrix
};

/// The packed matrix (Fragment::all_rows, in) that the file has in the place of the fragment's tensor; nothing: it has none.
/// Errors  bad_file naming file, tensor, shapes: parts that are missing, or do not fit each other or the matrix; an input whose group does not exist.
std::optional<HfQuantizedMatrix> find_hf_quantized(const ModelSpec&, const Weights&, std::optional<HfPacking>,
                                                   const Fragment&, int64_t in);
/// Whether the tensor is a bias of zeros beside a packed matrix; some programs write one where the model has none.
bool is_idle_bias(const Weights&, std::string_view name);
/// The weight type whose blocks hold the matrix's numbers, s·(q − z) in f32, to the bit. For NF4: nf4; for FP4: mxfp4. For 4 or 8 bits: q4_0
/// or q8_0, if every z is in the middle, every scale is an f16 number and groups are multiples of 32. For other 4, 3 or 2 bits: u4, u3 or u2,
/// if groups are multiples of 64 and scales are positive, normal and end in five zero bits. Nothing for the rest, and with `order` (desc_act).
std::optional<WeightType> exact_type(const HfQuantizedMatrix&);
/// Rows [begin, end) as numbers, (end - begin, in). FP4's negative zero is 0.
void unpack_rows(const HfQuantizedMatrix&, int64_t begin, int64_t end, float* to);
/// The same rows as blocks of exact_type.
void unpack_blocks(const HfQuantizedMatrix&, WeightType, int64_t begin, int64_t end, std::byte* to);
/// Writes a block of mxfp4 from 16 bytes of FP4 pairs as safetensors hold them (number 2i in the lower half of byte i) and their exponent.
void write_mxfp4_block(const std::byte* pairs, std::byte exponent, std::byte* to);

}  // namespace tern
