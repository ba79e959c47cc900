// The server: what it offers, to whom, and its limits.
#include "apps/options/rows.h"

namespace tern {

// One row, one line.
// clang-format off
OptionRows serve_rows() {
  using enum OptionType;
  return {
      {.name = "also", .verbs = "serve", .type = list, .unit = "NAME=DIR", .help = "a further model, which requests call NAME; may be given several times. All are judged before any is loaded; adapters, a draft and a template are MODEL's"},
      {.name = "host", .verbs = "serve", .type = text, .fallback = "127.0.0.1", .unit = "ADDRESS", .help = "address to listen on; one that other machines reach needs a key"},
      {.name = "port", .verbs = "serve", .type = integer, .fallback = "8080", .unit = "N", .help = "port to listen on; 0: one that is free (--json tells it)", .min = 0, .max = 65535},
      {.name = "model-name", .verbs = "serve", .type = text, .unit = "NAME", .help = "what requests call the model; not given: the last part of MODEL"},
      {.name = "api-key", .verbs = "serve bench-serve", .type = text, .unit = "KEY", .help = "what a request must bring (Authorization: Bearer KEY); better as TERN_API_KEY, which no list of processes shows"},
      {.name = "api-key-file", .verbs = "serve", .type = path, .unit = "FILE", .help = "keys, one a line; each is good"},
      {.name = "allow-host", .verbs = "serve", .type = list, .unit = "NAME", .help = "a further name the server may be called by, beside addresses, localhost and --host; may be given several times"},
      {.name = "allow-origin", .verbs = "serve", .type = list, .unit = "URL", .help = "a site whose pages may ask, such as https://chat.example.org; *: all; may be given several times"},
      {.name = "context", .verbs = "serve", .type = integer, .unit = "TOKENS", .help = "longest prompt and answer together; not given: what the model allows and memory holds, up to 8192", .min = 2, .max = kMaxCount},
      {.name = "max-running", .verbs = "serve", .type = integer, .fallback = "16", .unit = "N", .help = "answers computed at once; the cache has pages for as many of full length as memory holds", .min = 1, .max = 4096},
      {.name = "max-queue", .verbs = "serve", .type = integer, .fallback = "256", .unit = "N", .help = "answers that may wait beside them; more requests get 429", .min = 0, .max = 1e6},
      {.name = "max-body", .verbs = "serve", .type = bytes, .fallback = "1MiB", .unit = "SIZE", .help = "largest body of a request; a larger one gets 413", .min = 1024, .max = 1 << 30},
      {.name = "max-connections", .verbs = "serve", .type = integer, .fallback = "2048", .unit = "N", .help = "open connections; more get 503", .min = 1, .max = 1e6},
      {.name = "embed-tokens", .verbs = "serve", .type = integer, .fallback = "512", .unit = "TOKENS", .help = "longest text for /v1/embeddings, which memory is kept for; 0: none are made", .min = 0, .max = kMaxCount},
      {.name = "prefix-cache", .verbs = "serve", .type = toggle, .fallback = "on", .help = "keep the keys of what was read and written for prompts that begin alike; changes speed, not the result"},
      {.name = "drain", .verbs = "serve", .type = seconds, .fallback = "30s", .unit = "TIME", .help = "time that answers under way get after SIGTERM", .min = 0, .max = 86400},
  };
}
// clang-format on

}  // namespace tern
