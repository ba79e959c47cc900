#include "formats/tokenizer/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "formats/tokenizer/bpe.h"
#include "formats/tokenizer/piece_table.h"
#include "formats/tokenizer/unicode.h"

namespace tern {

namespace {

constexpr double kUnknownPenalty = 10;
constexpr uint32_t kNowhere = UINT32_MAX;

[[noreturn]] void no_unknown_piece(std::string_view text) {
  throw Error(ErrorKind::bad_file, "encode: no piece for '{}', and the tokenizer has no unknown piece; set unk_id",
              text.substr(0, 40));
}

// Score is the type in which sums are kept.
template <class Score>
void search(const UnigramModel& m, std::string_view word, UnigramScratch& s, TextBudget& budget) {
  const size_t size = word.size();
  s.best.assign(size + 1, {0, kNowhere, -1});
  for (size_t begin = 0; begin < size;) {
    const double before = s.best[begin].score;
    const auto character = static_cast<size_t>(code_point_at(word, begin).size);
    const auto offer = [&](size_t end, double sum, int32_t id) {
      UnigramScratch::Best& best = s.best[end];
      if (best.begin == kNowhere || sum > best.score) best = {sum, static_cast<uint32_t>(begin), id};
    };
    bool has_character = false;
    uint32_t node = ByteTrie::kRoot;
    size_t end = begin;
    while (end < size) {
      node = m.trie.child(node, static_cast<uint8_t>(word[end++]));
      if (node == ByteTrie::kRoot) break;
      const int32_t id = m.trie.value(node);
      if (id < 0) continue;
      offer(end, static_cast<Score>(m.costs[static_cast<size_t>(id)] + before), id);
      has_character |= end - begin == character;
    }
    budget.spend_work(end - begin, "finding pieces");
    if (!has_character) {
      if (!m.unk) no_unknown_piece(word.substr(begin, character));
      offer(begin + character, static_cast<Score>(m.unk_score + before), *m.unk);
    }
    begin += character;
  }
}

// A score as serde_json reads its shortest spelling: all digits as a whole number, then one division or multiplication.
double as_the_reference_reads(double score) {
  const std::string text = fmt::format("{}", std::abs(score));  // 12.5, 1e-05, inf
  if (!std::isfinite(score)) return score;
  const size_t e = std::min(text.find('e'), text.size());
  int exponent = e < text.size() ? std::stoi(text.substr(e + 1)) : 0;
  uint64_t whole = 0;
  bool behind_point = false;
  for (const char c : std::string_view(text).substr(0, e)) {
    if (c != '.') whole = whole * 10 + static_cast<uint64_t>(c - '0');
    exponent -= behind_point;
    behind_point |= c == '.';
  }
  if (std::abs(exponent) > 300) return score;  // no score of a model
  const auto digits = static_cast<double>(whole);
  const double power = std::pow(10.0, std::abs(exponent));
  const double value = exponent >= 0 ? digits * power : digits / power;
  return std::signbit(score) ? -value : value;
}

}  // namespace

void UnigramModel::finish(const PieceTable& pieces, const std::string& place) {
  double least = INFINITY;
  costs = scores;
  if (!sums_in_f32)
    for (double& cost : costs) cost = as_the_reference_reads(cost);
  for (int64_t id = 0; id < pieces.num_ids(); ++id) {
    if (!pieces.has(id)) continue;
    const auto at = static_cast<size_t>(id);
    if (!unmatched.empty() && unmatched[at]) continue;
    least = std::min(least, costs[at]);
    const std::string_view text = pieces.text(id);
    if (text.empty()) continue;
    if (!trie.add(text, static_cast<int32_t>(id)))
      throw Error(ErrorKind::bad_file, "{}: the pieces have too many beginnings, at most {} are read", place,
                  ByteTrie::kMaxNodes);
  }
  unk_score = least_score.value_or(least) - kUnknownPenalty;
  if (sums_in_f32) unk_score = static_cast<float>(unk_score);
  for (int b = 0; b < 256; ++b)
    byte_ids[static_cast<size_t>(b)] = pieces.find(fmt::format("<0x{:02X}>", b)).value_or(-1);
}

void encode_unigram(const UnigramModel& m, const PieceTable& pieces, std::string_view word, UnigramScratch& s,
                    TextBudget& budget, std::vector<int32_t>& ids) {
  if (word.empty()) return;
  if (word.size() >= kNowhere)
    throw Error(ErrorKind::bad_file, "encode: a word of {} bytes, fewer than {} are read; split the text", word.size(),
                kNowhere);
  if (m.sums_in_f32)
    search<float>(m, word, s, budget);
  else
    search<double>(m, word, s, budget);

  s.found.clear();  // from the right
  for (auto end = static_cast<uint32_t>(word.size()); end > 0;) {
    const UnigramScratch::Best& best = s.best[end];
    if (!s.found.empty() && m.unk && best.id == *m.unk && s.found.back().id == *m.unk)
      s.found.back().begin = best.begin;
    else
      s.found.push_back({best.begin, end, best.id});
    end = best.begin;
  }
  for (auto f = s.found.rbegin(); f != s.found.rend(); ++f) {
    if (!m.unk || f->id != *m.unk) {
      ids.push_back(f->id);
      continue;
    }
    // A run of unknown characters may be a piece all the same: one whose score is below theirs.
    const std::string_view text = word.substr(f->begin, f->end - f->begin);
    const auto whole = m.sums_in_f32 ? std::nullopt : pieces.find(text);
    const auto known = [&](char b) { return m.byte_ids[static_cast<uint8_t>(b)] >= 0; };
    if (whole)
      ids.push_back(*whole);
    else if (m.byte_fallback && std::ranges::all_of(text, known))
      for (const char b : text) ids.push_back(m.byte_ids[static_cast<uint8_t>(b)]);
    else
      ids.push_back(*m.unk);
  }
}

}  // namespace tern
