#pragma once
// Guesses by a draft: a smaller model with the same tokens (Leviathan et al. 2023, recalled). It draws by the random number by
// which the target draws at that position: with equal probabilities both draw the same token. A guess is accepted if the target
// draws it too, so no token changes; with SpeculationSettings::fast, guesses are accepted by rejection sampling instead.

#include <unordered_map>

#include "base/clock.h"
#include "infer/executor.h"
#include "infer/scheduler.h"
#include "infer/speculate/proposer.h"
#include "infer/speculate/step_times.h"

namespace tern {

inline constexpr int64_t kDraftRows = 256;  // the most tokens of a pass that reads texts

struct DraftLimits {
  int64_t rows = kDraftRows;  // the most tokens of one pass, over all texts: unread ones, and each text's last guess
  int64_t context = 0;        // the most tokens of a text that the draft takes
  int64_t vocab = 0;          // the number of ids that the draft knows; it does not guess for a text with another id
  int64_t draws_from = 0;     // the number of ids among which the target draws
};

/// The draft, with a cache of its own for the texts for which it guesses. Keys of accepted guesses stay; those of others are dropped. If pages
/// are missing, it gives up those of the texts that have gone longest without asking for a guess, and computes them again when they ask.
class DraftProposer : public Proposer {
 public:
  /// Pool and clock must outlive it.
  DraftProposer(KvPool&, BatchExecutor, const DraftLimits&, const Clock& = real_clock());
  ~DraftProposer() override;
  DraftProposer(const DraftProposer&) = delete;
  DraftProposer& operator=(const DraftProposer&) = delete;

  /// A guess's class (Guess::kind) is the probability that the draft gives it, in eighths. With ProposalAsk::with_odds the
  /// draft draws by random numbers of its own.
  std::vector<std::vector<Guess>> propose(std::span<const ProposalAsk>) override;
  void forget(uint64_t sequence) override;
  bool costs_time() const override { return true; }
  int64_t unread(const ProposalAsk&) const override;
  double compute_s(int64_t tokens) const override;

  int64_t num_passes() const { return num_passes_; }      // of the draft so far
  int64_t num_computed() const { return num_computed_; }  // tokens that it has computed so far

 private:
  struct Text {
    Sequence sequence;   // what the target has, and the guesses behind it
    int64_t agreed = 0;  // tokens that the target had when it asked last
    int64_t last_asked = 0;
    bool known = true;  // the draft knows the ids of all its tokens
  };
  struct Asked;
  static int64_t agreed_tokens(const Text&, const ProposalAsk&);
  void take_up(Text&, const ProposalAsk&);
  bool reserve(Text&, int64_t count);
  bool pass(std::vector<Asked>&);
  void draw(Asked&, const Tensor& logits, int64_t row);

  KvPool& pool_;
  BatchExecutor execute_;
  DraftLimits limits_;
  const Clock& clock_;
  StepTimes pass_times_{StepTimes::kLongMemory};  // by tokens of a pass, with its draws
  std::unordered_map<uint64_t, Text> texts_;
  std::vector<float> scores_;  // of the target's vocabulary
  int64_t asks_ = 0, num_passes_ = 0, num_computed_ = 0;
};

}  // namespace tern
