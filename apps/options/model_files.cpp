// Verbs that write a model (new, export, adapt merge, quantize) or look at one (inspect).
#include "apps/options/rows.h"

namespace tern {

// One row, one line.
// clang-format off
OptionRows new_model_rows() {
  using enum OptionType;
  return {
      {.name = "output", .verbs = "new", .type = path, .unit = "DIR", .help = "the directory to write; must not be there yet"},
      {.name = "layers", .verbs = "new", .type = integer, .fallback = "6", .unit = "N", .help = "layers, each of attention and an MLP", .min = 1, .max = 65536},
      {.name = "width", .verbs = "new", .type = integer, .fallback = "256", .unit = "N", .help = "numbers that a token has between layers (hidden_size)", .min = 2, .max = 1 << 20},
      {.name = "heads", .verbs = "new", .type = integer, .fallback = "4", .unit = "N", .help = "heads of attention; they divide --width", .min = 1, .max = 65536},
      {.name = "kv-heads", .verbs = "new", .type = integer, .unit = "N", .help = "heads of keys and values, fewer for a smaller cache; not given: as --heads", .min = 1, .max = 65536},
      {.name = "mlp-width", .verbs = "new", .type = integer, .unit = "N", .help = "width inside the MLP (intermediate_size); not given: 8/3 of --width, rounded up", .min = 1, .max = 1 << 24},
      {.name = "context", .verbs = "new", .type = integer, .fallback = "1024", .unit = "TOKENS", .help = "longest sequence that the model declares (max_position_embeddings)", .min = 1, .max = kMaxCount},
      {.name = "tokenizer", .verbs = "new", .type = path, .unit = "PATH", .help = "tokenizer directory or file, copied beside the configuration"},
      {.name = "vocab-size", .verbs = "new", .type = integer, .unit = "N", .help = "instead of --tokenizer: number of tokens", .min = 1, .max = 1 << 26},
      {.name = "tie", .verbs = "new", .type = toggle, .fallback = "on", .help = "one table for the embedding and the head"},
  };
}

OptionRows model_file_rows() {
  using enum OptionType;
  return {
      {.name = "output", .verbs = "adapt-merge", .type = path, .unit = "DIR", .help = "the model directory to write; must not be there yet"},
      {.name = "output", .verbs = "export", .type = path, .unit = "PATH", .help = "the directory, or the .gguf file, to write; must not be there yet"},
      {.name = "format", .verbs = "export", .type = choice, .fallback = "hf", .help = "a Hugging Face directory, or one GGUF file; not given: gguf if the output's name ends with .gguf", .choices = {"hf", "gguf"}},
      {.name = "shard-size", .verbs = "export adapt-merge", .type = bytes, .fallback = "5GB", .unit = "SIZE", .help = "of a directory: largest weights file; more is parted into shards", .min = 1},
      {.name = "offsets", .verbs = "adapt-merge", .type = flag, .help = "a base in codes (u4, u3, u2, nf4_1, q4_1, q5_1) stays as it is but for the offsets of its groups, which take an adapter of means (--method qalora, qablora) whole: in f32, of q4_1 and q5_1 to one rounding to f16"},
      {.name = "dtype", .verbs = "adapt-merge", .type = choice, .help = "type of the merged weights; not given: the model's own", .choices = {"f32", "bf16", "f16"}},
      {.name = "dtype", .verbs = "export", .type = choice, .help = "type of the written weights; not given: the one the model is kept in; q8_0: --format gguf only", .choices = {"f32", "f16", "bf16", "q8_0"}},
  };
}

OptionRows inspect_rows() {
  using enum OptionType;
  return {
      {.name = "layouts", .verbs = "inspect", .type = integer, .unit = "RANKS", .help = "instead of all else: the layouts of the matrices on RANKS ranks that send the fewest bytes: tensor parallelism, or gathered matrices (ZeRO 3) where rows outweigh them; MODEL may be a preset (llama-2-7b)", .min = 2, .max = 64},
      {.name = "batch", .verbs = "inspect", .type = integer, .fallback = "1", .unit = "SEQUENCES", .help = "of --layouts: sequences of a micro-batch, which all these ranks compute together", .min = 1, .max = kMaxCount},
      {.name = "seq", .verbs = "inspect", .type = integer, .fallback = "2048", .unit = "TOKENS", .help = "of --layouts: length of a sequence", .min = 1, .max = kMaxCount},
  };
}

OptionRows quantize_rows() {
  using enum OptionType;
  return {
      {.name = "data", .verbs = "quantize", .type = path, .unit = "FILE", .help = "--method gptq, lcq: a text like those that the model will read, JSONL of such texts or conversations, or a token file", .env = "TERN_DATA_FILE"},
      {.name = "output", .verbs = "quantize", .type = path, .unit = "FILE", .help = "the .gguf file to write, or the directory, in types of tern's own too; must not be there yet"},
      {.name = "method", .verbs = "quantize", .type = choice, .fallback = "rtn", .help = "rtn: every block by itself; gptq: scales searched, and errors taken back by later columns, for the inputs that --data gives; lcq: gptq with tables learned for each matrix; loftq: codes, and in OUT/adapter an adapter that makes up for their error as far as its rank can", .choices = {"rtn", "gptq", "lcq", "loftq"}},
      {.name = "rank", .verbs = "quantize", .type = integer, .fallback = "8", .unit = "R", .help = "--method loftq: rank of the adapter of each matrix", .min = 1, .max = 65536},
      {.name = "rounds", .verbs = "quantize", .type = integer, .fallback = "5", .unit = "N", .help = "--method loftq: how often what the adapter does not hold is coded again", .min = 1, .max = 1000},
      {.name = "report", .verbs = "quantize", .type = path, .unit = "FILE", .help = "write what it cost here, by the name's end as .txt, .json or .html: KL divergence, perplexity, bits per byte and same top token on each --valid-data, every tensor's error, bytes"},
      {.name = "valid-data", .verbs = "quantize", .type = list, .unit = "FILE", .help = "of --report: a text to measure on, which calibration should not have seen; may be given several times"},
      {.name = "bits", .verbs = "quantize", .type = choice, .fallback = "4", .help = "bits of a code. --method lcq: 0.25 more per weight say table and scale. rtn and gptq: instead of --type u4, u3 or u2; not given, --type counts. mixed, of lcq: each matrix as many (2, 3, 4, or 5.5, 6.56 and 8.5 in blocks of GGUF's) as it is worth by what it costs the predictions on --data", .choices = {"2", "3", "4", "mixed"}},
      {.name = "target-bytes", .verbs = "quantize", .type = bytes, .unit = "SIZE", .help = "--bits mixed: what all weights may take together, met within 1 %, such as 40MiB", .min = 1},
      {.name = "sensitivity", .verbs = "quantize", .type = path, .unit = "DIR", .help = "--bits mixed: keep here what each matrix costs, to be read again for other --target-bytes of the same model, text and types; not given: in OUTPUT.partial, until the end"},
      {.name = "reconstruction-steps", .verbs = "quantize", .type = integer, .fallback = "0", .unit = "N", .help = "--method lcq: after its codes are chosen, train each unit's tables and row scales in N steps, so that its output comes near the unquantized model's, such as 100, which takes some five times as long as all the rest; 0: do not", .min = 0, .max = 1000000},
      {.name = "calibration-tokens", .verbs = "quantize", .type = integer, .fallback = "32768", .unit = "N", .help = "--method gptq, lcq: tokens of --data to run through the layers, at most", .min = 1, .max = 1e9},
      {.name = "type", .verbs = "quantize", .type = choice, .fallback = "q4_0", .help = "of the layers' matrices; q6_k, q5_k, q4_k: GGUF's types of 256 numbers; in a directory u4, u3, u2: an f32 scale and offset per 64; nf4: QLoRA's levels and an f32 scale per 64; nf4_1: nf4 of numbers less an f32 offset per 64, at which the codes say most (IR-QLoRA's ICQ)", .choices = {"q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "q6_k", "q5_k", "q4_k", "u4", "u3", "u2", "nf4", "nf4_1"}},
      {.name = "table-type", .verbs = "quantize", .type = choice, .fallback = "q8_0", .help = "of the tables of tokens: the embedding and the head", .choices = {"f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "q6_k", "q5_k", "q4_k"}},
  };
}
// clang-format on

}  // namespace tern
