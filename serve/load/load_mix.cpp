#include "serve/load/load_mix.h"

#include <cmath>

#include "base/error.h"
#include "base/rng.h"

namespace tern {

LoadRequest request_of(const LoadMix& mix, uint64_t number) {
  TERN_CHECK(!mix.ids.empty(), "request_of: no ids to draw from");
  const auto uniform = [&](const char* purpose) { return random_uniform({mix.seed, hash_name(purpose)}, number); };
  LoadRequest r;
  if (mix.rate > 0) r.gap_s = -std::log1p(-uniform("gap")) / mix.rate;
  r.answer_tokens = mix.answers.quantile(1 - uniform("answer"));
  r.prompt.resize(static_cast<size_t>(mix.prompts.quantile(1 - uniform("prompt"))));
  const RngKey key{mix.seed + number, hash_name("ids")};
  for (size_t i = 0; i < r.prompt.size(); ++i)
    r.prompt[i] = mix.ids[static_cast<size_t>(random_uniform(key, i) * static_cast<double>(mix.ids.size()))];
  return r;
}

}  // namespace tern
