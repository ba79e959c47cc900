// How generate writes, and what of it chat, eval and serve take too.
#include "apps/options/rows.h"

namespace tern {

// One row, one line.
// clang-format off
OptionRows inference_type_rows() {
  using enum OptionType;
  return {
      {.name = "dtype", .verbs = "generate chat eval embed serve", .type = choice, .help = "type to compute in; not given: the one the model was saved in (f16: f32)", .choices = {"f32", "bf16", "f64"}},
      {.name = "seed", .verbs = "generate chat", .type = integer, .fallback = "1", .unit = "N", .help = "of the random draws", .min = 0},
  };
}

OptionRows generation_rows() {
  using enum OptionType;
  return {
      {.name = "adapter", .verbs = "generate chat eval", .type = path, .unit = "DIR", .help = "a PEFT directory (LoRA): the model answers with this adapter"},
      {.name = "adapter", .verbs = "serve", .type = list, .unit = "NAME=DIR", .help = "a PEFT directory (LoRA) beside the model: requests for the model NAME get its answers, in one batch with all others; may be given several times"},
      {.name = "prompt", .verbs = "generate", .type = text, .unit = "TEXT", .help = "the text to continue"},
      {.name = "prompt-file", .verbs = "generate", .type = path, .unit = "FILE", .help = "read the text from a file; -: standard input"},
      {.name = "prompts", .verbs = "generate", .type = path, .unit = "FILE.jsonl", .help = "continue each of many texts, several at a time: one JSON text a line, or {\"prompt\": …, \"id\": …, \"max_tokens\": …}; answers are JSON lines in the same order, the same whatever --batch is; -: standard input"},
      {.name = "batch", .verbs = "generate", .type = integer, .unit = "PROMPTS", .help = "of --prompts: most at a time; changes speed and memory, not the result; not given: up to 64 that fit, and where weights stream up to 256, for the fewest bytes read a token", .min = 1, .max = 65536},
      {.name = "output", .verbs = "generate", .type = path, .unit = "FILE", .help = "of --prompts: write each answer here as it comes; the same command goes on from it; not given: standard output"},
      {.name = "max-tokens", .verbs = "generate", .type = integer, .fallback = "128", .unit = "TOKENS", .help = "most tokens to write", .min = 1, .max = kMaxCount},
      {.name = "max-tokens", .verbs = "eval", .type = integer, .unit = "TOKENS", .help = "measure only so many tokens from the start; of --task: most tokens to write for an answer, not given: 256", .min = 1, .max = 1e12},
      {.name = "temperature", .verbs = "generate chat", .type = real, .unit = "X", .help = "0: always the likeliest token; not given: generation_config.json, else 0", .min = 0, .max = 1e4},
      {.name = "top-k", .verbs = "generate chat", .type = integer, .unit = "N", .help = "draw from the N likeliest tokens; 0: from all; not given: generation_config.json", .min = 0, .max = kMaxCount},
      {.name = "top-p", .verbs = "generate chat", .type = real, .unit = "P", .help = "draw from the likeliest tokens that together have this probability", .min = 0, .max = 1, .above_min = true},
      {.name = "min-p", .verbs = "generate chat", .type = real, .unit = "P", .help = "drop tokens below this share of the likeliest one's probability", .min = 0, .max = 1},
      {.name = "repetition-penalty", .verbs = "generate chat", .type = real, .unit = "X", .help = "divide positive and multiply negative scores of seen tokens by this; 1: none", .min = 0, .max = 1e4, .above_min = true},
      {.name = "presence-penalty", .verbs = "generate chat", .type = real, .fallback = "0", .unit = "X", .help = "subtract from the score of every token written before", .min = -1e4, .max = 1e4},
      {.name = "frequency-penalty", .verbs = "generate chat", .type = real, .fallback = "0", .unit = "X", .help = "subtract so much for each time a token was written", .min = -1e4, .max = 1e4},
      {.name = "stop", .verbs = "generate", .type = list, .unit = "TEXT", .help = "stop before this text; may be given several times"},
      {.name = "json-schema", .verbs = "generate", .type = path, .unit = "FILE", .help = "write JSON that satisfies this schema (docs/structured.md)"},
      {.name = "grammar", .verbs = "generate", .type = path, .unit = "FILE", .help = "write what this grammar allows (GBNF, as llama.cpp's; docs/structured.md)"},
      {.name = "samples", .verbs = "generate", .type = integer, .fallback = "1", .unit = "N", .help = "continuations to write, in one batch", .min = 1, .max = 65536},
      {.name = "samples-rule", .verbs = "generate", .type = text, .unit = "P,GAIN[,CEILING]", .help = "instead of --samples: as many as are worth their time where each is right with probability P. One more would raise CEILING·(1 − (1 − P)^N) by less than GAIN; CEILING (1) is the share of questions that are within reach at all"},
      {.name = "pick", .verbs = "generate", .type = choice, .fallback = "all", .help = "of --samples: all of them; best, the one with the most probability a token; first, the first that ends by itself, upon which the others are stopped (shorter lines of reasoning are more often right). Where none does, the best", .choices = {"all", "best", "first"}},
      {.name = "ignore-eos", .verbs = "generate", .type = flag, .help = "go on after an end-of-sequence token"},
      {.name = "context", .verbs = "generate", .type = integer, .unit = "TOKENS", .help = "longest sequence; not given: prompt and --max-tokens, within what the model allows", .min = 1, .max = kMaxCount},
      {.name = "chunk", .verbs = "generate serve", .type = integer, .fallback = "512", .unit = "TOKENS", .help = "prompt tokens read at a time; changes speed and memory, not the result", .min = 1, .max = kMaxCount},
      {.name = "weights", .verbs = "generate chat serve", .type = choice, .fallback = "auto", .help = "where weights are read from. Safetensors in bf16 on tiles: the mapped file, or a copy in huge pages (a token takes 15 to 32 % less time, the start of 1.1B weights 0.4 to 5 s more); auto: a copy from 256 tokens on, a chat counting its context, where memory has room for both. GGUF: mapped leaves matrices as the file codes them: the same answers, a fraction of the memory, seldom faster; copied decodes them at the start; auto decodes them where that fits. Others are packed at the start (0.4 s and more for 1.1B)", .choices = {"auto", "mapped", "copied"}},
      {.name = "arithmetic", .verbs = "generate chat serve eval", .type = choice, .fallback = "kept", .help = "what a GGUF file's matrices are multiplied by. kept: the decoded weights' bits; int8: activations are rounded to 8 bits in groups of 32 and multiplied with the codes as integers: other answers (the page on quantization says how far), the same on every processor; a token takes less time where it waits for decoding", .choices = {"kept", "int8"}},
      {.name = "kv-dtype", .verbs = "generate chat eval serve", .type = choice, .help = "how keys and values are kept; not given: as they are computed; bf16, q8, q4 take less memory and round: 8 or 4 bits each and a scale for every token and head", .choices = {"f32", "bf16", "q8", "q4"}},
      {.name = "kv-place", .verbs = "generate", .type = choice, .fallback = "auto", .help = "where keys and values lie: in memory, or on a disk, from which each step reads them layer by layer; auto: the keys of none, a quarter, half, three quarters or all of the layers lie on the disk, whichever moves the fewest bytes for a token; none while all fits in memory. Changes speed and memory, not the result", .choices = {"auto", "memory", "disk"}},
      {.name = "kv-dir", .verbs = "generate", .type = path, .unit = "DIR", .help = "a folder on the disk that keys and values may lie on, in a file without a name that ends with the command; not given: $TMPDIR, else /var/tmp"},
      {.name = "page", .verbs = "generate serve", .type = integer, .fallback = "16", .unit = "TOKENS", .help = "tokens per page of the key-value cache; does not change the result", .min = 1, .max = 65536},
      {.name = "stream-window", .verbs = "generate", .type = text, .unit = "WINDOW", .help = "blocks:W, layers:K or layers:K,STEP: stream as other systems do, for comparison: every matrix that can stream does, even if it fits; W blocks (the attention or MLP of a layer, or the head) or K layers lie in memory at a time, and the next ones are read once one of them, or STEP, are given back whole. blocks:2 is TPI-LLM's window; layers:K,STEP has Superpipeline's two parameters. Changes speed and memory, not the result; --memory is only checked"},
      {.name = "trace", .verbs = "generate", .type = path, .unit = "FILE", .help = "write a Chrome trace (open it in ui.perfetto.dev) of three steps, of one sample tokens 3 to 5: reads and computation as measured and, if weights are read from the disk, as predicted. Needs --max-tokens 5 or more; not with --prompts, --speculate, --draft or a gated adapter"},
  };
}

OptionRows guess_rows() {
  using enum OptionType;
  return {
      {.name = "speculate", .verbs = "generate chat serve", .type = choice, .fallback = "off", .help = "guess tokens and compute several at once; a guess is taken where it is what the model draws, so no answer changes. ngram: what followed where the last tokens stood before in prompt and text; draft: what the model of --draft draws. As many are computed as make it quicker by measured times: none where that would be slower", .choices = {"off", "ngram", "draft"}},
      {.name = "draft", .verbs = "generate chat serve", .type = path, .unit = "MODEL", .help = "a smaller model with the same tokenizer, which guesses (--speculate draft); it is in the forecast of memory"},
      {.name = "fast", .verbs = "generate chat serve", .type = flag, .help = "of --draft, where tokens are sampled: guesses are taken by rejection sampling, more of them than where they must be what the model itself draws. Every text is as likely as without, but a seed does not say the same again"},
      {.name = "draft-tokens", .verbs = "generate chat serve", .type = integer, .fallback = "16", .unit = "TOKENS", .help = "of --speculate and --draft: most tokens guessed at a time; memory is laid out for them", .min = 1, .max = 4096},
  };
}
// clang-format on

}  // namespace tern
