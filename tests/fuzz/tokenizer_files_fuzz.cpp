// Bytes up to the first NUL as one file beside a model, the rest as another: vocab.json and merges.txt, a list of words
// and tokenizer_config.json, tiktoken's ranks, special_tokens_map.json. An Error, or a tokenizer whose ids have pieces.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/tokenizer_impl.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tern;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::string_view first = all.substr(0, all.find('\0')),
                         rest = all.substr(std::min(all.size(), first.size() + 1));
  const auto use = [](const auto& made) {
    try {
      const Tokenizer t = made();
      const auto ids = t.encode("ab abc <s> 12 x_y \U0001F600");
      for (const int32_t id : ids)
        if (!t.has(id)) std::abort();
      t.decode(ids);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::bad_file || std::string_view(error.what()).size() > 4000) std::abort();
    }
  };
  use([&] { return finish_tokenizer(read_vocab_and_merges(first, rest, "vocab.json"), {}); });
  use([&] { return finish_tokenizer(read_tiktoken(all, "tokenizer.model"), {}); });
  use([&] { return finish_tokenizer(read_word_list(first, "", "vocab.txt"), {}); });
  use([&] {
    TokenizerConfig config = read_tokenizer_config(rest, "tokenizer_config.json");
    return finish_tokenizer(read_word_list(first, rest, "vocab.txt"), std::move(config));
  });
  use([&] {
    TokenizerConfig config;
    read_special_tokens_map(rest, "special_tokens_map.json", config);
    return finish_tokenizer(read_vocab_and_merges(first, "", "vocab.json"), std::move(config));
  });
  return 0;
}
