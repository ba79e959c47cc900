#include "apps/speculation_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "base/units.h"
#include "infer/load.h"
#include "infer/speculate/ngram.h"

namespace tern {

SpeculationChoice::SpeculationChoice(const Options& options, int64_t sequences) {
  const std::string kind = options.text("speculate");
  if (kind == "off") {
    if (options.given("draft-tokens"))
      throw Error(ErrorKind::usage, "--draft-tokens: nothing is guessed without --speculate ngram; give both or none");
    return;
  }
  proposer_ = std::make_unique<NgramProposer>();
  settings_.proposer = proposer_.get();
  settings_.most_tokens = options.integer("draft-tokens");
  settings_.budget = guess_budget(sequences, settings_.most_tokens);
}

// Beside a chunk of a prompt the guesses of others run; those of the only sequence never do.
void SpeculationChoice::add_to(InferenceNeeds& needs, int64_t sequences) const {
  if (budget() == 0) return;
  needs.logit_rows += budget();
  needs.iteration_tokens =
      sequences > 1 ? needs.iteration_tokens + budget() : std::max(needs.iteration_tokens, 1 + budget());
}

std::string speculation_words(const SpeculationFigures* f) {
  if (!f || f->guessed == 0) return "";
  return fmt::format("guessed {}, {:.0f} % accepted: about {:.2f} times as fast", counted(f->guessed, "token"),
                     100 * f->acceptance(), f->speed_up());
}

Json speculation_json(const SpeculationFigures& f) {
  return {{"guessed_tokens", f.guessed},       {"accepted_tokens", f.accepted}, {"acceptance", f.acceptance()},
          {"decode_steps", f.steps},           {"decoded_tokens", f.tokens},    {"steps_with_guesses", f.with_guesses},
          {"estimated_speed_up", f.speed_up()}};
}

}  // namespace tern
