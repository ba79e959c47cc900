// A model whose matrices are rounded by learned tables, with another division of the byte of 32 weights than the format's two bits
// for a table, one for the sign and five for the scale; written as a directory of f32 numbers, for `tern eval --reference`. One
// table and scales alone is the rival of rank one at the same bytes.
//
//   group_bytes MODEL TEXT TOKENS BITS TABLE_BITS SIGN OUTPUT      BITS 2, 3 or 4; TABLE_BITS 0 to 3; SIGN 0 or 1
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "apps/hf_output.h"
#include "apps/read_text.h"
#include "base/error.h"
#include "base/io.h"
#include "formats/chat/template_files.h"
#include "infer/load.h"
#include "model/allocate_weights.h"
#include "model/parameter_reader.h"
#include "model/save_parts.h"
#include "quantize/layer_coder.h"

namespace tern {
namespace {

void write_rounded(const std::string& path, const std::string& text, int64_t tokens, WeightType type, GroupByte byte,
                   const std::string& out) {
  const ModelDescription model = describe_model(path, DType::f32);
  if (!model.tokenizer) throw Error(ErrorKind::usage, "{} has no tokenizer", path);
  bool whole = false;
  CalibrationText calibration{encode_at_most(*model.tokenizer, read_text(text), static_cast<size_t>(tokens), whole)};
  Arena arena;
  calibration.window =
      std::min({calibration.window, model_context(model), static_cast<int64_t>(calibration.tokens.size())});
  if (calibration.tokens.empty()) throw Error(ErrorKind::usage, "TOKENS {} of {}: none", tokens, text);
  LayerCoder coder(model.spec, path, calibration, type, arena, nullptr, {.byte = byte});
  std::map<std::string, std::vector<std::byte>> rounded;  // f32
  for (const ParameterInfo& info : parameters(model.spec))
    if (has_codes(model.spec, info) && fills_blocks(type, info.shape[1])) rounded[info.name] = coder.code(info).rows;
  ParameterReader from(model.spec, path);
  const ReadParameter read = [&](const ParameterInfo& info) {
    const auto at = rounded.find(info.name);
    if (at == rounded.end()) return from.read(info, DType::f32, arena);
    Tensor t = arena.allocate(DType::f32, info.shape, MemoryClass::weights);
    std::memcpy(t.data(), at->second.data(), static_cast<size_t>(t.bytes()));
    return t;
  };
  save_model(model.spec, model.config, empty_weights(model.spec), DType::f32, out, real_io(), read);
  write_companions(model, read_chat_templates(path), out, real_io());
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
  if (argc != 8) {
    fmt::print(stderr, "usage: group_bytes MODEL TEXT TOKENS BITS TABLE_BITS SIGN OUTPUT\n");
    return 2;
  }
  try {
    const auto type = tern::weight_type_from_name(std::string("LC") + argv[4]);
    const tern::GroupByte byte{std::atoi(argv[5]), std::atoi(argv[6]) != 0};
    if (!type || byte.table_bits < 0 || byte.table_bits > 3)
      throw tern::Error(tern::ErrorKind::usage, "BITS {}, TABLE_BITS {}: 2 to 4, 0 to 3", argv[4], argv[5]);
    if (byte == tern::GroupByte{})
      throw tern::Error(tern::ErrorKind::usage, "this is the format's own: tern quantize --method lcq");
    tern::write_rounded(argv[1], argv[2], std::atoll(argv[3]), *type, byte, argv[7]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "group_bytes: {}\n", error.what());
    return 1;
  }
}
