// A conversation: how it is written, for chat and serve, and what of it is learned, for train and adapt.
#include "apps/options/rows.h"

namespace tern {

// One row, one line.
// clang-format off
OptionRows chat_rows() {
  using enum OptionType;
  return {
      {.name = "system", .verbs = "chat", .type = text, .unit = "TEXT", .help = "system prompt: what the model should know and be"},
      {.name = "invalid-utf8", .verbs = "train adapt tokenize", .type = choice, .fallback = "error", .help = "what is done with bytes of a text that are no UTF-8 (with --train and --pack of tokenize): error: refuse the file, naming the byte; replace: read each as U+FFFD; skip: leave them out. Documents so changed are counted", .choices = {"error", "replace", "skip"}},
      {.name = "answers", .verbs = "train adapt eval tokenize", .type = choice, .fallback = "all", .help = "which answers of a conversation (messages) are learned, or scored. all: in one sample, where the template writes earlier turns as it wrote them first; each: a sample for every answer with the turns before it, also for templates that drop earlier reasoning; last: the last answer", .choices = {"all", "last", "each"}},
      {.name = "chat-template", .verbs = "chat serve train adapt eval quantize tokenize", .type = path, .unit = "FILE", .help = "Jinja template to write conversations with; not given: the model's own"},
      {.name = "max-tokens", .verbs = "chat", .type = integer, .unit = "TOKENS", .help = "most tokens of an answer; not given: what the context holds", .min = 1, .max = kMaxCount},
      {.name = "context", .verbs = "chat", .type = integer, .unit = "TOKENS", .help = "longest conversation; not given: what the model allows and memory holds, up to 8192", .min = 2, .max = kMaxCount},
  };
}
// clang-format on

}  // namespace tern
