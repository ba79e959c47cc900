// Any bytes as a safetensors file, and as an index: an Error or a valid file whose every byte is accounted for.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/error.h"
#include "formats/safetensors/index.h"
#include "formats/safetensors/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tern;
  try {
    const Safetensors file = Safetensors::over(std::as_bytes(std::span(data, size)), "fuzz");
    int64_t sum = 0, bits = 0;
    for (size_t i = 0; i < file.size(); ++i) {
      const TensorView t = file[i];
      sum += static_cast<int64_t>(t.bytes.size());
      for (const std::byte b : t.bytes) bits |= static_cast<int64_t>(b);
      if (t.num_elements() < 0 || !file.find(t.name)) std::abort();
    }
    if (sum != file.data_bytes() || bits > 255) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_file) std::abort();
  }
  try {
    for (const auto& [tensor, file] :
         parse_safetensors_index({reinterpret_cast<const char*>(data), size}, "fuzz").weight_map)
      if (file.find('/') != std::string::npos || file.starts_with(".")) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_file) std::abort();
  }
  return 0;
}
