#pragma once
// tern adapt combine, beside the verbs of apps/verbs.h.

namespace tern {

class Options;

int run_adapt_combine(const Options&);

}  // namespace tern
