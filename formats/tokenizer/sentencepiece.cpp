// A SentencePiece model as a tokenizer: normalizing as its library does, pieces, merges or scores.
#include "formats/tokenizer/sentencepiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/error.h"
#include "formats/tokenizer/members.h"
#include "formats/tokenizer/piece_table.h"
#include "formats/tokenizer/read_impl.h"
#include "formats/tokenizer/sentencepiece_file.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {

namespace {

constexpr size_t kMergesPerPiece = 8, kSpareMerges = 4096;  // Llama 2's vocabulary has two per piece

bool may_merge(PieceType type) { return type == PieceType::normal || type == PieceType::user_defined; }

// Both parts of every cut of a text, each found by one walk over its bytes.
class PartFinder {
 public:
  PartFinder(const SentencePieceModel& model, const std::string& place) {
    for (size_t id = 0; id < model.pieces.size(); ++id) {
      const SentencePiece& piece = model.pieces[id];
      if (!may_merge(piece.type)) continue;
      const std::string backwards(piece.text.rbegin(), piece.text.rend());
      forward_.add(piece.text, static_cast<int32_t>(id));
      backward_.add(backwards, static_cast<int32_t>(id));
      if (forward_.full() || backward_.full())
        throw Error(ErrorKind::bad_file, "{}: the pieces up to {} have more than {} different beginnings or endings",
                    place, id, ByteTrie::kMaxNodes);
    }
  }
  // take(left, right) for every cut into two pieces, the first cut first.
  template <class Take>
  void cuts(std::string_view text, const Take& take) {
    left_.assign(text.size() + 1, -1);
    walk(
        forward_, text.size(), [&](size_t k) { return text[k]; }, [&](size_t size, int32_t id) { left_[size] = id; });
    right_.assign(text.size() + 1, -1);
    walk(
        backward_, text.size(), [&](size_t k) { return text[text.size() - 1 - k]; },
        [&](size_t size, int32_t id) { right_[text.size() - size] = id; });
    for (size_t cut = 1; cut < text.size(); ++cut)
      if (left_[cut] >= 0 && right_[cut] >= 0) take(left_[cut], right_[cut]);
  }

 private:
  template <class At, class Found>
  static void walk(const ByteTrie& trie, size_t size, const At& at, const Found& found) {
    uint32_t node = ByteTrie::kRoot;
    for (size_t k = 0; k < size; ++k) {
      node = trie.child(node, static_cast<uint8_t>(at(k)));
      if (node == ByteTrie::kRoot) return;
      if (trie.value(node) >= 0) found(k + 1, trie.value(node));
    }
  }
  ByteTrie forward_, backward_;
  std::vector<int32_t> left_, right_;
};

// The merges that make each piece, ranked by score: of equal scores the leftmost goes first, as in the reference.
void add_merges_by_score(const SentencePieceModel& model, const std::string& place, BpeModel& bpe) {
  std::map<float, uint32_t, std::greater<>> rank_of_score;
  for (const SentencePiece& piece : model.pieces) rank_of_score[piece.score] = 0;
  uint32_t rank = 0;
  for (auto& [score, its_rank] : rank_of_score) its_rank = rank++;
  PartFinder parts(model, place);
  const size_t most = kMergesPerPiece * model.pieces.size() + kSpareMerges;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    if (piece.type != PieceType::normal) continue;
    parts.cuts(piece.text, [&](int32_t left, int32_t right) {
      bpe.merge_list.push_back({left, right, static_cast<int32_t>(id), rank_of_score[piece.score]});
    });
    if (bpe.merge_list.size() > most)
      throw Error(ErrorKind::bad_file,
                  "{}: the pieces up to {} are made by {} merges of two others, at most {} are kept for {} pieces; is "
                  "this a vocabulary that was trained?",
                  place, id, bpe.merge_list.size(), most, model.pieces.size());
  }
  std::ranges::stable_sort(bpe.merge_list, {}, &Merge::rank);
}

// Unused pieces never come out. A SentencePiece library merges them and takes them apart again, which is the same only
// for those that no merge makes and no character is.
void check_unused(const SentencePieceModel& model, const std::string& place) {
  std::optional<PartFinder> parts;
  SentencePieceModel all;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    if (piece.type != PieceType::unused) continue;
    if (!parts) {
      all.pieces = model.pieces;
      for (SentencePiece& p : all.pieces)
        if (p.type == PieceType::unused) p.type = PieceType::normal;
      parts.emplace(all, place);
    }
    bool made = static_cast<size_t>(code_point_at(piece.text, 0).size) == piece.text.size();
    parts->cuts(piece.text, [&](int32_t, int32_t) { made = true; });
    if (made)
      throw Error(ErrorKind::bad_file,
                  "{}: piece {}: '{}' is unused, and merges make it, which tern reads in Unigram models only", place,
                  id, piece.text);
  }
}

void set_scores(const SentencePieceModel& model, UnigramModel& unigram) {
  float least = INFINITY;
  for (const SentencePiece& piece : model.pieces) {
    if (piece.type == PieceType::normal) least = std::min(least, piece.score);
  }
  if (!std::isfinite(least)) least = 0;
  unigram.sums_in_f32 = true;
  unigram.least_score = least;
  unigram.byte_fallback = model.byte_fallback;
  for (const SentencePiece& piece : model.pieces) {
    // A user-defined piece always wins: the reference gives it this score, above any logarithm.
    const bool wins = piece.type == PieceType::user_defined;
    unigram.scores.push_back(wins ? 0.1F : piece.score);
    unigram.unmatched.push_back(!wins && piece.type != PieceType::normal);
  }
}

}  // namespace

SentencePieceStep sentencepiece_step(const SentencePieceModel& model, const std::string& place) {
  SentencePieceStep step;
  if (!model.charsmap.empty()) step.map = std::make_shared<const Charsmap>(model.charsmap, path_in(place, "rules"));
  ByteTrie kept;
  if (model.user_defined_in_normalized)
    for (size_t id = 0; id < model.pieces.size(); ++id)
      if (model.pieces[id].type == PieceType::user_defined) {
        kept.add(model.pieces[id].text, static_cast<int32_t>(id));
        step.keeps_some = true;
      }
  step.kept = std::make_shared<const ByteTrie>(std::move(kept));
  step.prefix = model.add_dummy_prefix && !model.whitespace_as_suffix;
  step.suffix = model.add_dummy_prefix && model.whitespace_as_suffix;
  step.remove_extra = model.remove_extra_whitespaces;
  step.escape = model.escape_whitespaces;
  return step;
}

// The library's decoding, which `Strip` of tokenizer.json only resembles: it looks at pieces, not at the text.
void decode_as_sentencepiece(const SentencePieceModel& model, std::vector<DecodeStep>& steps) {
  std::erase_if(steps, [](const DecodeStep& s) { return std::holds_alternative<StripDecode>(s); });
  if (model.add_dummy_prefix || model.remove_extra_whitespaces)
    steps.insert(steps.begin(), LeadingSpaceDecode{.every = model.remove_extra_whitespaces});
}

std::string normalize_by_sentencepiece(const SentencePieceStep& step, std::string_view text, const TextBudget& budget) {
  const std::string_view space = step.escape ? kMetaspace : std::string_view(" ");
  // What stands first becomes, and how many bytes of the text that takes.
  const auto front = [&](std::string_view rest) -> std::pair<std::string_view, size_t> {
    if (step.keeps_some) {
      uint32_t node = ByteTrie::kRoot;
      size_t longest = 0;
      for (size_t i = 0; i < rest.size();) {
        node = step.kept->child(node, static_cast<uint8_t>(rest[i++]));
        if (node == ByteTrie::kRoot) break;
        if (step.kept->value(node) >= 0) longest = i;
      }
      if (longest > 0) return {rest.substr(0, longest), longest};
    }
    if (step.map)
      if (const auto match = step.map->longest(rest)) return {match->replacement, match->size};
    const auto size = static_cast<size_t>(code_point_at(rest, 0).size);
    return {rest.substr(0, size), size};
  };
  size_t at = 0;
  if (step.remove_extra) {
    while (at < text.size()) {
      const auto [becomes, size] = front(text.substr(at));
      if (becomes != " ") break;
      at += size;
    }
  }
  std::string out;
  if (at == text.size()) return out;
  if (step.prefix) out += space;
  bool behind_space = step.remove_extra;
  while (at < text.size()) {
    budget.check_bytes(out.size(), "normalizer: the rules");
    auto [becomes, size] = front(text.substr(at));
    at += size;
    while (behind_space && becomes.starts_with(' ')) becomes.remove_prefix(1);
    if (!becomes.empty()) {
      for (const char c : becomes) {
        if (c == ' ')
          out += space;
        else
          out += c;
      }
      behind_space = step.remove_extra && becomes.ends_with(' ');
    }
  }
  while (step.remove_extra && out.ends_with(space)) out.resize(out.size() - space.size());
  if (step.suffix) out += space;
  return out;
}

std::unique_ptr<TokenizerData> tokenizer_of_sentencepiece(SentencePieceModel model, const std::string& place) {
  auto t = std::make_unique<TokenizerData>();
  t->place = place;
  std::optional<int32_t> unknown;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePiece& piece = model.pieces[i];
    const auto id = static_cast<int32_t>(i);
    // In BPE an unused piece leaves a hole among the ids: its text is not looked up.
    const bool hole = piece.type == PieceType::unused && !model.is_unigram;
    if (!hole && !t->model.pieces.add(piece.text, id))
      throw Error(ErrorKind::bad_file, "{}: piece {}: '{}' stands there twice", place, i, piece.text);
    if (piece.type == PieceType::unknown && unknown)
      throw Error(ErrorKind::bad_file, "{}: pieces {} and {} are both the unknown piece", place, *unknown, i);
    if (piece.type == PieceType::unknown) unknown = id;
    if (piece.type == PieceType::byte && !model.byte_fallback)
      throw Error(ErrorKind::bad_file, "{}: piece {}: '{}' is a byte, and the model has no byte fallback", place, i,
                  piece.text);
    if (piece.type == PieceType::unknown || piece.type == PieceType::control)
      t->added.push_back({id, piece.text, false, false, false, false, true});
    else if (piece.type == PieceType::user_defined && (!model.is_unigram || !model.user_defined_in_normalized))
      t->added.push_back({id, piece.text, false, false, false, model.user_defined_in_normalized, false});
  }
  if (!unknown)
    throw Error(ErrorKind::bad_file, "{}: none of {} pieces is the unknown piece", place, model.pieces.size());

  if (model.is_unigram) {
    t->kind = ModelKind::unigram;
    t->unigram.unk = unknown;
    set_scores(model, t->unigram);
  } else {
    t->model.unk = unknown;
    t->model.unk_token = model.pieces[static_cast<size_t>(*unknown)].text;
    t->model.fuse_unk = true;
    t->model.byte_fallback = model.byte_fallback;
    if (model.user_defined_in_normalized) check_unused(model, place);
    add_merges_by_score(model, place, t->model);
  }
  const auto named = [&](const std::string& name) {
    const auto id = t->model.pieces.find(name);
    return id && model.pieces[static_cast<size_t>(*id)].type == PieceType::control ? std::optional(name) : std::nullopt;
  };
  t->config.bos = named(model.bos), t->config.eos = named(model.eos), t->config.pad = named(model.pad);
  t->config.unk = model.pieces[static_cast<size_t>(*unknown)].text;

  const std::string strip = model.add_dummy_prefix
                                ? fmt::format(R"(,{{"type":"Strip","content":" ","start":{},"stop":{}}})",
                                              model.whitespace_as_suffix ? 0 : 1, model.whitespace_as_suffix ? 1 : 0)
                                : "";
  t->sentencepiece = std::make_shared<const SentencePieceModel>(std::move(model));
  set_components(*t, {"null", "null", "null",
                      fmt::format(R"({{"type":"Sequence","decoders":[{{"type":"Replace","pattern":{{"String":"{}"}},)"
                                  R"("content":" "}},{{"type":"ByteFallback"}},{{"type":"Fuse"}}{}]}})",
                                  kMetaspace, strip)});
  t->flags_decide = true;
  return t;
}

}  // namespace tern
