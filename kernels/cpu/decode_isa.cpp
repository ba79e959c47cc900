// The decoders of all weight types, by their rows: decode_ID stands in a decode_*_isa.cpp.

#include "kernels/cpu/decode_impl.h"
#include "kernels/cpu/decode_table.h"

namespace tern::TERN_ISA_NAMESPACE {

const DecodeTable decode_table = {{
#define TERN_WEIGHT_TYPE(id, name, gguf, elements, bytes) {elements, bytes, 0, decode_##id, nullptr},
#define TERN_LEARNED_WEIGHT_TYPE(id, name, gguf, elements, bytes, row_header_bytes, levels) \
  {elements, bytes, row_header_bytes, nullptr, decode_##id},
#include "base/weight_types.def"
#undef TERN_WEIGHT_TYPE
}};

}  // namespace tern::TERN_ISA_NAMESPACE
