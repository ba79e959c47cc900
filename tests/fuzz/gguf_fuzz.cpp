// Any bytes as a GGUF file: an Error, or a file whose values and tensors can all be asked for; and its vocabulary and
// its configuration, each an Error or a tokenizer and a model that can be counted.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/model.h"
#include "formats/gguf/tokenizer.h"
#include "kernels/cpu/decode.h"
#include "spec/model_spec.h"

namespace {

uint64_t visit(const tern::GgufValue& v) {
  using tern::GgufValueType;
  if (v.type() == GgufValueType::string) return v.as_string().size();
  if (v.type() == GgufValueType::boolean) return v.as_bool() ? 1 : 0;
  if (v.type() != GgufValueType::array) return v.as_number() > 0 ? 1 : 0;
  uint64_t sum = 0;
  if (v.element_type() == GgufValueType::string) {
    for (const std::string_view s : v.as_strings()) sum += s.size() + (s.empty() ? 0 : static_cast<uint8_t>(s.back()));
    return sum;
  }
  for (const tern::GgufValue& e : v.elements()) sum += visit(e);
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tern;
  try {
    const Gguf file = Gguf::over(std::as_bytes(std::span(data, size)), "fuzz");
    uint64_t sum = 0;
    for (size_t i = 0; i < file.num_keys(); ++i) {
      sum += visit(file.value(i));
      if (!file.find(file.key(i))) std::abort();
    }
    size_t bytes = 0;
    for (const GgufTensor& t : file.tensors()) {
      if (t.num_elements() < 1 || file.find_tensor(t.name) == nullptr) std::abort();
      bytes += t.bytes.size();
      if (!t.type->weight) continue;
      std::vector<float> out(static_cast<size_t>(t.num_elements()));
      decode_blocks(*t.type->weight, t.bytes, out);
    }
    if (bytes > size || sum == UINT64_MAX) std::abort();
    try {
      const Tokenizer t = gguf_tokenizer(file);
      for (const int32_t id : t.encode("ab a. \U0001F600 <|end|>"))
        if (!t.has(id)) std::abort();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::bad_file) std::abort();
    }
    if (num_parameters(model_spec(gguf_config(file))) < 1) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_file) std::abort();
  }
  return 0;
}
