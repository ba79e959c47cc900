#include "infer/speculate/draft_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "infer/sampling.h"
#include "model/not_finite.h"

namespace tern {

// A text of this proposal.
struct DraftProposer::Asked {
  const ProposalAsk* ask;
  Text* text;
  std::vector<Guess> guesses = {};
  bool done = false;
};

DraftProposer::DraftProposer(KvPool& pool, BatchExecutor execute, const DraftLimits& limits)
    : pool_(pool), execute_(std::move(execute)), limits_(limits) {}

DraftProposer::~DraftProposer() {
  for (auto& [id, text] : texts_) pool_.release(text.sequence.kv);
}

void DraftProposer::forget(uint64_t sequence) {
  const auto found = texts_.find(sequence);
  if (found == texts_.end()) return;
  pool_.release(found->second.sequence.kv);
  texts_.erase(found);
}

std::vector<std::vector<Guess>> DraftProposer::propose(std::span<const ProposalAsk> asks) {
  ++asks_;
  std::vector<Asked> all;
  for (const ProposalAsk& ask : asks) {
    Text& text = texts_[ask.sequence];
    take_up(text, ask);
    all.push_back({.ask = &ask, .text = &text});
    all.back().done = ask.most < 1 || !text.known || std::ssize(ask.tokens) > limits_.context;
  }
  while (pass(all)) {}
  std::vector<std::vector<Guess>> guesses;
  for (Asked& one : all) guesses.push_back(std::move(one.guesses));
  return guesses;
}

// Keys stay as far as the draft's tokens are the target's, all but the last one's, whose logits are wanted.
void DraftProposer::take_up(Text& text, const ProposalAsk& ask) {
  Sequence& s = text.sequence;
  const auto known = s.tokens.begin() + std::min<int64_t>(text.agreed, std::ssize(s.tokens));
  const auto same =
      std::mismatch(known, s.tokens.end(), ask.tokens.begin() + (known - s.tokens.begin()), ask.tokens.end());
  const int64_t agreed = same.first - s.tokens.begin();
  text.known = text.known && std::all_of(ask.tokens.begin() + agreed, ask.tokens.end(),
                                         [&](int32_t id) { return id >= 0 && id < limits_.vocab; });
  s.tokens.resize(static_cast<size_t>(agreed));
  s.tokens.insert(s.tokens.end(), ask.tokens.begin() + agreed, ask.tokens.end());
  if (const int64_t good = std::min(agreed, std::ssize(ask.tokens) - 1); s.kv.length > good) pool_.truncate(s.kv, good);
  text.agreed = std::ssize(ask.tokens), text.last_asked = asks_;
}

// Pages of texts that are not asked for are given up for it, those asked for longest ago first.
bool DraftProposer::reserve(Text& text, int64_t count) {
  while (!pool_.reserve(text.sequence.kv, count)) {
    Text* oldest = nullptr;
    for (auto& [id, other] : texts_)
      if (other.last_asked < asks_ && !other.sequence.kv.pages.empty() &&
          (!oldest || other.last_asked < oldest->last_asked))
        oldest = &other;
    if (!oldest) return false;
    pool_.release(oldest->sequence.kv);
  }
  return true;
}

// One batch of what is not computed yet: texts, and guesses behind those that are. False: nothing is left to compute.
bool DraftProposer::pass(std::vector<Asked>& all) {
  Batch batch;
  std::vector<Asked*> in_batch;
  int64_t room = limits_.rows;
  for (Asked& one : all) {
    if (one.done || room == 0) continue;
    Sequence& s = one.text->sequence;
    const int64_t count = std::min(s.pending(), room);
    if (!reserve(*one.text, count)) {
      one.done = true;
      continue;
    }
    batch.push_back({.sequence = &s,
                     .begin = s.kv.length,
                     .count = count,
                     .kind = count == 1 ? WorkKind::decode : WorkKind::prefill,
                     .wants_logits = count == s.pending()});
    in_batch.push_back(&one);
    room -= count;
  }
  if (batch.empty()) return false;
  const Tensor logits = execute_(batch, pool_);
  ++num_passes_;
  int64_t row = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    num_computed_ += batch[i].count;
    batch[i].sequence->kv.length += batch[i].count;
    if (batch[i].wants_logits) draw(*in_batch[i], logits, row++);
  }
  return true;
}

void DraftProposer::draw(Asked& one, const Tensor& logits, int64_t row) {
  Sequence& s = one.text->sequence;
  const Tensor values = logits.rows_view(row, row + 1);
  const auto n = static_cast<size_t>(std::min(logits.shape()[1], limits_.draws_from));
  scores_.assign(static_cast<size_t>(limits_.draws_from), -std::numeric_limits<float>::infinity());
  if (logits.dtype() == DType::f32)
    std::copy_n(values.span<float>().begin(), n, scores_.begin());
  else
    std::copy_n(values.span<double>().begin(), n, scores_.begin());
  const ProposalAsk& ask = *one.ask;
  const auto guessed = std::ssize(one.guesses);
  try {
    const std::vector<float> before = scores_;
    const int64_t generated = ask.num_generated + guessed;
    DrawnGuess guess;
    if (ask.with_odds)
      guess = draw_guess(*ask.sampling, s.tokens, generated, ask.stream, s.tokens.size(), scores_);
    else
      guess.token = sample_token(*ask.sampling, s.tokens, generated, ask.stream, s.tokens.size(), scores_);
    const double p = std::exp(log_probability(before, guess.token));
    s.tokens.push_back(guess.token);
    one.guesses.push_back({guess.token,
                           static_cast<uint8_t>(std::clamp(static_cast<int>(p * kGuessClasses), 0, kGuessClasses - 1)),
                           std::move(guess.odds)});
  } catch (const NotFinite&) { one.done = true; }  // it guesses nothing then
  one.done = one.done || std::ssize(one.guesses) == ask.most || std::ssize(s.tokens) > limits_.context ||
             s.tokens.back() >= limits_.vocab;
}

}  // namespace tern
