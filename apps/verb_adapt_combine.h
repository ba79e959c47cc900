#pragma once
// The functions of the verbs `tern adapt combine` and `tern adapt extract`; those of other verbs are in apps/verbs.h.

namespace tern {

class Options;

int run_adapt_combine(const Options&);
int run_adapt_extract(const Options&);

}  // namespace tern
