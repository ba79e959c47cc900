// Any bytes as a SentencePiece model, and those of its rules alone: an Error, or a tokenizer whose ids all have a
// piece, whose streamed decode is the whole decode, and whose saved form loads again to the same hash.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/tokenizer/bytes.h"
#include "formats/tokenizer/charsmap.h"
#include "formats/tokenizer/sentencepiece.h"
#include "formats/tokenizer/sentencepiece_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tern;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size),
      text = "ab  ba ｆｕｌｌ e\u0301 \U0001F600 <s>";
  const auto guarded = [](const auto& run) {
    try {
      run();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::bad_file || std::string_view(error.what()).size() > 4000) std::abort();
    }
  };
  guarded([&] {
    const auto made = [](std::string_view file) { return tokenizer_of_bytes({.sentencepiece = file}, "fuzz"); };
    if (bytes.empty()) return;
    const Tokenizer t = made(bytes);
    for (const bool allow : {true, false}) {
      const auto ids = t.encode(text, {.add_special = true, .allow_special = allow});
      for (const int32_t id : ids)
        if (!t.has(id)) std::abort();
      StreamingDecoder decoder(t);
      std::string streamed;
      for (const int32_t id : ids) streamed += decoder.push(id);
      if (streamed + decoder.finish() != t.decode(ids)) std::abort();
    }
    if (made(write_sentencepiece(read_sentencepiece(bytes, "fuzz"))).hash() != t.hash()) std::abort();
  });
  guarded([&] { apply_by_clusters(Charsmap(bytes, "fuzz"), text, TextBudget(text.size())); });
  return 0;
}
