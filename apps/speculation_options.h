#pragma once
// Reads --speculate and its options for verbs that write text, and makes the proposer, which guesses the next tokens.

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

/// The model of --draft, which has the same tokens as the target; null: --draft is not given. Errors  usage: another
/// vocabulary, an encoder, options that contradict each other; bad_file: it has no tokenizer; those of describe_model.
std::shared_ptr<const ModelDescription> draft_option(const Options&, const ModelDescription& target);

/// The speculative decoding that the options choose.
class SpeculationChoice {
 public:
  /// `draft`: from draft_option. `sequences`: how many run at once. Errors  usage: an option has no effect without --speculate.
  SpeculationChoice(const Options&, std::shared_ptr<const ModelDescription> draft, int64_t sequences);
  /// No guesses.
  explicit SpeculationChoice(int64_t sequences) : sequences_(sequences) { settings_.budget = 0; }
  /// The number of rows that guesses add to a batch; 0: there are no guesses.
  int64_t budget() const { return settings_.budget; }
  /// Adds these rows to the needs of an inference without guesses.
  void add_to(InferenceNeeds&) const;
  /// The budget less what the draft takes: weights, one pass, and keys and values of `context` tokens for all sequences, or
  /// only for as many as an eighth of the budget holds, at least one. Errors  does_not_fit: the budget is smaller than that.
  MemoryBudget beside_draft(MemoryBudget, int64_t context);
  /// The bytes of the draft's tensors. Valid after beside_draft.
  int64_t draft_tensors() const { return draft_tensors_; }
  /// Makes the proposer, and loads the draft. Called once, before the engine is made. `vocab`: of the target.
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

/// The most tokens that a text may have if the verb chooses its context: --context, else the context with which choose_context begins.
int64_t most_context(const Options&, const ModelDescription&);

/// "guessed 512 tokens, 61 % accepted: about 1.8 times as fast"; empty if nothing was guessed.
std::string speculation_words(const SpeculationFigures*);
Json speculation_json(const SpeculationFigures&);

}  // namespace tern
