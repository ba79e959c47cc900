// Bytes up to the first NUL as tokenizer.json, the rest as text: an Error, or ids that all have a piece, a streamed
// decode that is the whole decode, and a saved form that loads again to the same hash.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tern;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::string_view json = all.substr(0, all.find('\0')), text = all.substr(std::min(all.size(), json.size() + 1));
  try {
    const Tokenizer t = Tokenizer::from_json(json, "", "fuzz");
    for (const bool allow : {true, false}) {
      const auto ids = t.encode(text, {.add_special = true, .allow_special = allow});
      for (const int32_t id : ids)
        if (!t.has(id)) std::abort();
      StreamingDecoder decoder(t);
      std::string streamed;
      for (const int32_t id : ids) {
        const std::string part = decoder.push(id);
        if (!is_valid_utf8(part)) std::abort();
        streamed += part;
      }
      if (streamed + decoder.finish() != t.decode(ids)) std::abort();
    }
    if (Tokenizer::from_json(t.to_json(), t.config_json(), "saved").hash() != t.hash()) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_file) std::abort();
  }
  return 0;
}
