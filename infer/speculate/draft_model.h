#pragma once
// Guesses of a smaller model with the same tokens. It draws as the target draws, by the same random number for a position, so
// that where both say the same of a token they also draw the same. Source: speculative decoding (Leviathan et al. 2023,
// recalled), with acceptance by equality of draws in the place of rejection sampling: no token of the target changes.

#include <unordered_map>

#include "base/clock.h"
#include "infer/executor.h"
#include "infer/scheduler.h"
#include "infer/speculate/proposer.h"
#include "infer/speculate/step_times.h"

namespace tern {

inline constexpr int64_t kDraftRows = 256;  // of a pass that reads a text

struct DraftLimits {
  int64_t rows = kDraftRows;  // tokens of one pass: of texts that it has not read yet, or one of each text
  int64_t context = 0;        // tokens that the draft model takes
  int64_t vocab = 0;          // ids that it knows; a text with another is not guessed
  int64_t draws_from = 0;     // ids that the target draws from
};

/// Keeps keys and values of its own for the texts it guesses. Keys of guesses that were accepted stay; those of others go.
/// Where pages are short, those of texts that wait longest for a guess are given up and computed again later.
class DraftProposer : public Proposer {
 public:
  /// Pool and clock must outlive it.
  DraftProposer(KvPool&, BatchExecutor, const DraftLimits&, const Clock& = real_clock());
  ~DraftProposer() override;
  DraftProposer(const DraftProposer&) = delete;
  DraftProposer& operator=(const DraftProposer&) = delete;

  /// A guess's class is the probability that the draft gives it, in eighths. Asked with odds, its draws are its own.
  std::vector<std::vector<Guess>> propose(std::span<const ProposalAsk>) override;
  void forget(uint64_t sequence) override;
  bool costs_time() const override { return true; }
  int64_t unread(const ProposalAsk&) const override;
  double compute_s(int64_t tokens) const override;

  int64_t num_passes() const { return num_passes_; }      // of the draft model, so far
  int64_t num_computed() const { return num_computed_; }  // tokens, so far

 private:
  struct Text {
    Sequence sequence;   // what the target has, and the guesses behind it
    int64_t agreed = 0;  // tokens that the target had when it asked last
    int64_t last_asked = 0;
    bool known = true;  // all its tokens are ones that the draft has
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
