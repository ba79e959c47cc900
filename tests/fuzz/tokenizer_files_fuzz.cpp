// Bytes up to the first NUL as one file beside a model, the rest as another: vocab.json and merges.txt, a list of words
// and tokenizer_config.json, tiktoken's ranks, special_tokens_map.json. An Error, or a tokenizer whose ids have pieces.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/tokenizer/bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tern;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::string_view first = all.substr(0, all.find('\0')),
                         rest = all.substr(std::min(all.size(), first.size() + 1));
  const auto use = [](const TokenizerBytes& files) {
    try {
      const Tokenizer t = tokenizer_of_bytes(files, "fuzz");
      const auto ids = t.encode("ab abc <s> 12 x_y \U0001F600");
      for (const int32_t id : ids)
        if (!t.has(id)) std::abort();
      t.decode(ids);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::bad_file || std::string_view(error.what()).size() > 4000) std::abort();
    }
  };
  use({.vocab = first, .merges = rest});
  use({.ranks = all});
  use({.words = first});
  use({.words = first, .config = rest});
  use({.vocab = first, .special_tokens_map = rest});
  return 0;
}
