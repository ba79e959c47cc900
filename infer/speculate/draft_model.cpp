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

DraftProposer::DraftProposer(KvPool& pool, BatchExecutor execute, const DraftLimits& limits, const Clock& clock)
    : pool_(pool), execute_(std::move(execute)), limits_(limits), clock_(clock) {}

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

// How many first tokens the draft and the target have in common.
int64_t DraftProposer::agreed_tokens(const Text& text, const ProposalAsk& ask) {
  const std::vector<int32_t>& tokens = text.sequence.tokens;
  const auto known = tokens.begin() + std::min<int64_t>(text.agreed, std::ssize(tokens));
  return std::mismatch(known, tokens.end(), ask.tokens.begin() + (known - tokens.begin()), ask.tokens.end()).first -
         tokens.begin();
}

int64_t DraftProposer::unread(const ProposalAsk& ask) const {
  const auto length = std::ssize(ask.tokens);
  if (length > limits_.context) return 0;
  const auto found = texts_.find(ask.sequence);
  if (found == texts_.end()) return length;
  const Text& text = found->second;
  return text.known ? length - std::min({agreed_tokens(text, ask), text.sequence.kv.length, length - 1}) : 0;
}

// In as many passes as it takes.
double DraftProposer::compute_s(int64_t tokens) const {
  const int64_t full = tokens / limits_.rows, rest = tokens % limits_.rows;
  double seconds = full > 0 ? static_cast<double>(full) * pass_times_.estimate(limits_.rows) : 0;
  if (rest > 0) seconds += pass_times_.estimate(rest);
  return seconds;
}

// Keys stay as far as the draft's tokens are the target's, all but the last one's, whose logits are wanted.
void DraftProposer::take_up(Text& text, const ProposalAsk& ask) {
  Sequence& s = text.sequence;
  const int64_t agreed = DraftProposer::agreed_tokens(text, ask);
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
  const int64_t begin_ns = clock_.now_ns();
  const Tensor logits = execute_(batch, pool_);
  ++num_passes_;
  int64_t row = 0, tokens = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    tokens += batch[i].count;
    batch[i].sequence->kv.length += batch[i].count;
    if (batch[i].wants_logits) draw(*in_batch[i], logits, row++);
  }
  num_computed_ += tokens;
  pass_times_.observe(tokens, seconds_between(begin_ns, clock_.now_ns()));
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
