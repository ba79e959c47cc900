// Text and ids, token files, and tokenizers.
#include "apps/options/rows.h"

namespace tern {

// One row, one line.
// clang-format off
OptionRows tokenize_output_rows() {
  using enum OptionType;
  return {
      {.name = "output", .verbs = "tokenize", .type = path, .unit = "PATH", .help = "write here: a token file (--pack), a tokenizer directory (--train), else ids or text"},
  };
}

OptionRows tokenize_rows() {
  using enum OptionType;
  return {
      {.name = "text", .verbs = "tokenize", .type = text, .unit = "TEXT", .help = "the text; of --decode: ids, separated by spaces or commas"},
      {.name = "input", .verbs = "tokenize", .type = path, .unit = "PATH", .help = "read from a file; -: standard input; with --train and --pack also a folder of texts"},
      {.name = "decode", .verbs = "tokenize", .type = flag, .help = "ids to text instead of text to ids"},
      {.name = "add-special", .verbs = "tokenize", .type = flag, .help = "add BOS and EOS where the tokenizer does"},
      {.name = "pack", .verbs = "tokenize", .type = flag, .help = "write a token file from text or JSONL (text, prompt and completion, or messages)"},
      {.name = "train", .verbs = "tokenize", .type = flag, .help = "train a byte-level BPE on the input"},
      {.name = "vocab-size", .verbs = "tokenize", .type = integer, .unit = "N", .help = "of --train: number of tokens, special ones included", .min = 257, .max = 1 << 24},
  };
}
// clang-format on

}  // namespace tern
