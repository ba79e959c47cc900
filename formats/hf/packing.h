#pragma once
// How other programs pack the matrices of a Hugging Face directory into fewer bits: what quantization_config says of
// it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tern {

/// The packings that tern reads.
enum class HfPacking : uint8_t {
  gptq,          // AutoGPTQ's first format: stored zeros are one too small
  gptq_v2,       // stored zeros are the zeros
  awq,           // AutoAWQ's "gemm"
  compressed,    // compressed-tensors: pack-quantized, int-quantized, mxfp4-pack-quantized
  bitsandbytes,  // NF4
  mxfp4,         // gpt-oss: the experts of a layer in one tensor of blocks and one of scales
};

/// Whether some form of the quant_method is read; hf_packing judges the form.
bool is_packing_method(std::string_view quant_method);
/// The packing that quantization_config names. `place`: file and key, for messages. `notes` gets a sentence for each
/// key that tern does not follow because it changes no weight.
/// Errors  bad_file "PLACE: …": a method, or a form of one, that tern does not read.
/// Source  gptqmodel 7.7, autoawq 0.2.9, compressed-tensors 0.20, transformers 5.24 (bitsandbytes, mxfp4).
HfPacking hf_packing(const Json& quantization_config, std::string_view place, std::vector<std::string>& notes);
/// The packing that the config.json beside a weights file names; absent: no such file, or the weights are plain numbers
/// or coded by tern. Errors: as above.
std::optional<HfPacking> hf_packing_beside(const std::string& weights_path);

}  // namespace tern
