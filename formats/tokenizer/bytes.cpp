#include "formats/tokenizer/bytes.h"

#include "formats/tokenizer/members.h"
#include "formats/tokenizer/read_impl.h"
#include "formats/tokenizer/sentencepiece_file.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {

Tokenizer tokenizer_of_bytes(const TokenizerBytes& files, const std::string& place) {
  TokenizerConfig config;
  if (!files.config.empty()) config = read_tokenizer_config(files.config, path_in(place, "tokenizer_config.json"));
  if (!files.special_tokens_map.empty())
    read_special_tokens_map(files.special_tokens_map, path_in(place, "special_tokens_map.json"), config);
  const auto data = [&] {
    if (!files.sentencepiece.empty())
      return tokenizer_of_sentencepiece(read_sentencepiece(files.sentencepiece, place), place);
    if (!files.vocab.empty()) return read_vocab_and_merges(files.vocab, files.merges, place);
    if (!files.ranks.empty()) return read_tiktoken(files.ranks, place);
    return read_word_list(files.words, files.config, place);
  };
  return finish_tokenizer(data(), std::move(config));
}

}  // namespace tern
