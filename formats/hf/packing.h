#pragma once
// How other programs pack the matrices of a Hugging Face directory into fewer bits: what quantization_config says of it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tern {

enum class HfPacking : uint8_t {
  gptq,          // zeros less one, as AutoGPTQ wrote them
  gptq_v2,       // zeros as they are
  awq,           // AutoAWQ's "gemm"
  compressed,    // compressed-tensors: pack-quantized, int-quantized, mxfp4-pack-quantized
  bitsandbytes,  // NF4
  mxfp4,         // gpt-oss: the experts of a layer in one tensor of blocks and one of scales
};

/// Whether some form of the quant_method is read; hf_packing judges the form.
bool is_packing_method(std::string_view quant_method);
/// The words of quantization_config; `place`: file and key, for messages. `notes` gets a sentence for what changes no weight and is not
/// followed.
/// Errors  bad_file "PLACE: …": a method, or a form of one, that tern does not read.
/// Source  gptqmodel 7.7, autoawq 0.2.9, compressed-tensors 0.20, transformers 5.24 (bitsandbytes, mxfp4).
HfPacking hf_packing(const Json& quantization_config, std::string_view place, std::vector<std::string>& notes);
/// Of the config.json beside a weights file; nothing: numbers, tern's own codes, or no such file. Errors: as above.
std::optional<HfPacking> hf_packing_beside(const std::string& weights_path);

}  // namespace tern
