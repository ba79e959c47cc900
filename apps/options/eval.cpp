// What eval measures, on which windows of a text or which questions.
#include "apps/options/rows.h"

namespace tern {

// One row, one line.
// clang-format off
OptionRows eval_text_rows() {
  using enum OptionType;
  return {
      {.name = "data", .verbs = "eval", .type = path, .unit = "FILE", .help = "text, JSONL or token file to measure on", .env = "TERN_DATA_FILE"},
      {.name = "batch", .verbs = "eval", .type = integer, .fallback = "8", .unit = "WINDOWS", .help = "windows, choices or answers at a time; changes speed and memory, not the result", .min = 1, .max = kMaxCount},
  };
}

OptionRows eval_rows() {
  using enum OptionType;
  return {
      {.name = "convention", .verbs = "eval", .type = choice, .fallback = "stride", .help = "whose way to cut the text into windows and count", .choices = {"stride", "harness", "gptq", "llamacpp"}},
      {.name = "window", .verbs = "eval", .type = integer, .unit = "TOKENS", .help = "length of a window; not given: the convention's (stride 1024, gptq 2048, llamacpp 512), within what the model allows", .min = 2, .max = kMaxCount},
      {.name = "stride", .verbs = "eval", .type = integer, .unit = "TOKENS", .help = "from one window to the next; not given: one less than the window, so each token is scored once", .min = 1, .max = kMaxCount},
      {.name = "bos", .verbs = "eval", .type = choice, .fallback = "auto", .help = "token in front; auto: of --task BOS if the tokenizer adds it, of --data BOS, else EOS; or always BOS, or never one", .choices = {"auto", "always", "never"}},
      {.name = "task", .verbs = "eval", .type = path, .unit = "FILE", .help = "questions, one JSON object per line: prompt with choices and the index of the answer, or prompt and answer"},
      {.name = "reference", .verbs = "eval", .type = path, .unit = "MODEL", .help = "with --data: how far the model is from this one, by KL divergence and the likeliest token"},
      {.name = "output", .verbs = "eval", .type = path, .unit = "FILE", .help = "write each result here as it comes; the same command goes on from it"},
      {.name = "extract", .verbs = "eval", .type = text, .unit = "PATTERN", .help = "of --task: the part of the written text that counts as the answer (regular expression); without a match it is wrong"},
      {.name = "extract-which", .verbs = "eval", .type = choice, .fallback = "last", .help = "of several matches of --extract", .choices = {"first", "last"}},
      {.name = "ignore-case", .verbs = "eval", .type = flag, .help = "of --task: compare written answers without regard to case"},
      {.name = "ignore-punctuation", .verbs = "eval", .type = flag, .help = "of --task: compare written answers without punctuation"},
  };
}
// clang-format on

}  // namespace tern
