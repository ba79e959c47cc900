#pragma once
// The function of the verb `tern adapt combine`; those of other verbs are in apps/verbs.h.

namespace tern {

class Options;

int run_adapt_combine(const Options&);

}  // namespace tern
