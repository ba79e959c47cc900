#include "infer/constrain/constraint.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {
namespace {

constexpr int64_t kKeptBytes = int64_t{8} << 20, kMostBytes = int64_t{32} << 20;

}  // namespace

TokenTexts token_texts(const std::vector<std::string>& texts) {
  TokenTexts t;
  t.vocab = static_cast<int64_t>(texts.size());
  t.of_id.assign(texts.size(), -1);
  for (size_t id = 0; id < texts.size(); ++id)
    if (!texts[id].empty()) t.sorted.push_back({texts[id], static_cast<int32_t>(id), 0});
  std::sort(t.sorted.begin(), t.sorted.end(),
            [](const auto& a, const auto& b) { return a.bytes != b.bytes ? a.bytes < b.bytes : a.id < b.id; });
  for (size_t i = 0; i < t.sorted.size(); ++i) {
    t.of_id[static_cast<size_t>(t.sorted[i].id)] = static_cast<int32_t>(i);
    if (i == 0) continue;
    const std::string &a = t.sorted[i - 1].bytes, &b = t.sorted[i].bytes;
    const auto parted = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
    t.sorted[i].common = static_cast<uint32_t>(parted - a.begin());
  }
  return t;
}

TokenTexts token_texts(const Tokenizer& tokenizer, int64_t vocab,
                       const std::vector<std::pair<int32_t, std::string>>& spoken) {
  std::vector<std::string> texts(static_cast<size_t>(vocab));
  for (int64_t id = 0; id < std::min(vocab, tokenizer.vocab_size()); ++id)
    if (!tokenizer.is_special(id)) texts[static_cast<size_t>(id)] = tokenizer.token_bytes(id);
  for (const auto& [id, text] : spoken) texts.at(static_cast<size_t>(id)) = text;
  return token_texts(texts);
}

Constraint::Constraint(std::shared_ptr<const TokenTexts> texts, Grammar grammar)
    : texts_(std::move(texts)), automaton_(std::move(grammar)) {}

// Between masks only: while one is made, numbers of states must stay.
int32_t Constraint::make_room(int32_t state) {
  const auto words = static_cast<int64_t>((texts_->vocab + 63) / 64);
  const int64_t bytes = automaton_.num_bytes() + static_cast<int64_t>(masks_.size()) * (words * 8 + 64);
  if (bytes < kKeptBytes) return state;
  masks_.clear();
  ++generation_;
  return automaton_.forget_others(state);
}

// Texts in order, each from the state behind what it has in common with the one before. Behind a byte that may not
// follow, all texts that have it in common are passed over.
const std::vector<uint64_t>& Constraint::mask(int32_t state) {
  if (const auto found = masks_.find(state); found != masks_.end()) return found->second;
  std::vector<uint64_t> bits(static_cast<size_t>((texts_->vocab + 63) / 64));
  std::vector<int32_t> states = {state};  // behind the first i bytes
  size_t dead = std::string::npos;        // the first bytes of the text before that may not follow
  for (const TokenTexts::Text& text : texts_->sorted) {
    if (text.common >= dead) continue;
    dead = std::string::npos;
    states.resize(std::min<size_t>(text.common, states.size() - 1) + 1);
    for (size_t i = states.size() - 1; i < text.bytes.size(); ++i) {
      const int32_t behind = automaton_.next(states.back(), static_cast<uint8_t>(text.bytes[i]));
      if (behind == Automaton::kDead) {
        dead = i + 1;
        break;
      }
      states.push_back(behind);
    }
    if (dead == std::string::npos) bits[static_cast<size_t>(text.id) / 64] |= uint64_t{1} << (text.id % 64);
    if (automaton_.num_bytes() > kMostBytes)
      throw Error(ErrorKind::usage, "the grammar has too many states for one token; make its repetitions smaller");
  }
  ++num_made_;
  return masks_.emplace(state, std::move(bits)).first->second;
}

ConstrainedText::ConstrainedText(std::shared_ptr<Constraint> constraint) : constraint_(std::move(constraint)) {}

int32_t ConstrainedText::state() {
  Constraint& c = *constraint_;
  if (generation_ == c.generation_) return state_;
  state_ = c.automaton_.start();
  for (const char byte : text_) state_ = c.make_room(c.automaton_.next(state_, static_cast<uint8_t>(byte)));
  generation_ = c.generation_;
  return state_;
}

bool ConstrainedText::is_prepared() const {
  return generation_ == constraint_->generation_ && constraint_->masks_.contains(state_);
}

const std::vector<uint64_t>& ConstrainedText::bits() {
  Constraint& c = *constraint_;
  if (!is_prepared()) state_ = c.make_room(state());
  generation_ = c.generation_;
  return c.mask(state_);
}

void ConstrainedText::prepare() {
  try {
    bits();
  } catch (const std::exception&) {}
}

void ConstrainedText::mask(std::span<float> scores, std::span<const int32_t> ends) {
  Constraint& c = *constraint_;
  TERN_CHECK(static_cast<int64_t>(scores.size()) == c.texts_->vocab, "ConstrainedText: {} scores, {} tokens",
             scores.size(), c.texts_->vocab);
  std::vector<uint64_t> may = bits();
  for (const int32_t id : ends) {
    if (id < 0 || id >= c.texts_->vocab) continue;
    const uint64_t bit = uint64_t{1} << (id % 64);
    uint64_t& word = may[static_cast<size_t>(id) / 64];
    word = c.automaton_.accepts(state_) ? word | bit : word & ~bit;
  }
  for (size_t id = 0; id < scores.size(); ++id)
    if ((may[id / 64] >> (id % 64) & 1) == 0 && std::isfinite(scores[id]))
      scores[id] = -std::numeric_limits<float>::infinity();
  if (std::ranges::all_of(may, [](uint64_t word) { return word == 0; }))
    throw Error(ErrorKind::usage,
                "no token of the model's vocabulary goes on behind {} bytes of a text of this grammar", text_.size());
}

void ConstrainedText::push(int32_t token) {
  const TokenTexts& texts = *constraint_->texts_;
  const int32_t place = texts.of_id[static_cast<size_t>(token)];
  TERN_CHECK(place >= 0, "ConstrainedText: token {} writes nothing", token);
  int32_t at = state();
  for (const char byte : texts.sorted[static_cast<size_t>(place)].bytes) {
    at = constraint_->automaton_.next(at, static_cast<uint8_t>(byte));
    TERN_CHECK(at != Automaton::kDead, "ConstrainedText: token {} may not follow", token);
  }
  text_ += texts.sorted[static_cast<size_t>(place)].bytes;
  state_ = at;
}

bool ConstrainedText::may_end() { return constraint_->automaton_.accepts(state()); }
bool ConstrainedText::is_done() {
  const int32_t now = state();
  return constraint_->automaton_.accepts(now) && constraint_->automaton_.is_last(now);
}

}  // namespace tern
