#pragma once
// --speculate and what belongs to it, for the verbs that write text.

#include <memory>

#include "base/json.h"
#include "infer/speculate/speculation.h"

namespace tern {

class Options;
struct InferenceNeeds;

/// Who guesses, as the options say.
class SpeculationChoice {
 public:
  /// Errors  usage: an option that would do nothing without --speculate.
  SpeculationChoice(const Options&, int64_t sequences);
  const SpeculationSettings& settings() const { return settings_; }
  /// Rows that guesses add to a batch; 0 without any.
  int64_t budget() const { return settings_.proposer ? settings_.budget : 0; }
  /// Adds them to what inference needs: `tokens` are those of an iteration without guesses.
  void add_to(InferenceNeeds&, int64_t sequences) const;

 private:
  std::unique_ptr<Proposer> proposer_;
  SpeculationSettings settings_;
};

/// "guessed 512 tokens, 61 % accepted: about 1.8 times as fast"; empty if nothing was guessed.
std::string speculation_words(const SpeculationFigures*);
Json speculation_json(const SpeculationFigures&);

}  // namespace tern
