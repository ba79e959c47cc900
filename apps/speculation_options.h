#pragma once
// --speculate and what belongs to it, for the verbs that write text.

#include <memory>
#include <optional>

#include "base/json.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "infer/speculate/speculation.h"
#include "model/rope_table.h"
#include "model/weights.h"

namespace tern {

class Arena;
class Options;

/// --draft: a model with the target's tokens; null: none is given. Errors  usage: another vocabulary, an encoder, options that
/// contradict each other; those of describe_model.
std::shared_ptr<const ModelDescription> draft_option(const Options&, const ModelDescription& target);

/// Who guesses, as the options say.
class SpeculationChoice {
 public:
  /// Errors  usage: an option that would do nothing without --speculate.
  SpeculationChoice(const Options&, std::shared_ptr<const ModelDescription> draft, int64_t sequences);
  /// Nobody guesses.
  explicit SpeculationChoice(int64_t sequences) : sequences_(sequences) { settings_.budget = 0; }
  /// Rows that guesses add to a batch; 0 without any.
  int64_t budget() const { return settings_.budget; }
  /// Adds them to what inference needs: `tokens` are those of an iteration without guesses.
  void add_to(InferenceNeeds&) const;
  /// What is left beside the draft model: its weights, a pass of it, and keys and values for the sequences with `context` tokens
  /// each, or for as many as an eighth of memory holds. Errors  does_not_fit: not even for one.
  MemoryBudget beside_draft(MemoryBudget, int64_t context);
  /// Bytes of tensors that the draft model takes, once beside_draft has decided.
  int64_t draft_tensors() const { return draft_tensors_; }
  /// Makes what guesses; a draft model is loaded. Once, before the engine. `vocab`: of the target.
  void load(int64_t vocab, Arena&);
  const SpeculationSettings& settings() const { return settings_; }

 private:
  bool guesses_ = false;
  int64_t sequences_;
  std::shared_ptr<const ModelDescription> draft_;
  InferenceNeeds needs_;  // of the draft model
  int64_t draft_tensors_ = 0;
  ModelWeights weights_;
  RopeTable rope_;
  std::optional<KvPool> pool_;
  std::unique_ptr<Proposer> proposer_;
  SpeculationSettings settings_;
};

/// The most tokens that a text may have where the verb chooses its context: --context, else what choose_context begins with.
int64_t most_context(const Options&, const ModelDescription&);

/// "guessed 512 tokens, 61 % accepted: about 1.8 times as fast"; empty if nothing was guessed.
std::string speculation_words(const SpeculationFigures*);
Json speculation_json(const SpeculationFigures&);

}  // namespace tern
