// A SentencePiece model as a tokenizer: normalizing as its library does, pieces, merges or scores.
#include "formats/sentencepiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/error.h"
#include "formats/tokenizer_impl.h"

namespace tern {

namespace {

constexpr size_t kMaxMergedBytes = 2048;  // merges are found by every cut of a piece

// The merges that make each piece, ranked by score: of equal scores the leftmost goes first, as in the reference.
void add_merges_by_score(const SentencePieceModel& model, const std::string& place, BpeModel& bpe) {
  const auto may_merge = [](const SentencePiece& p) {
    return p.type == PieceType::normal || p.type == PieceType::user_defined;
  };
  std::map<float, uint32_t, std::greater<>> rank_of_score;
  for (const SentencePiece& piece : model.pieces) rank_of_score[piece.score] = 0;
  uint32_t rank = 0;
  for (auto& [score, its_rank] : rank_of_score) its_rank = rank++;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    if (piece.type != PieceType::normal) continue;
    const std::string_view text = piece.text;
    if (text.size() > kMaxMergedBytes)
      throw Error(ErrorKind::bad_file, "{}: piece {} has {} bytes, at most {} are merged", place, id, text.size(),
                  kMaxMergedBytes);
    for (size_t cut = static_cast<size_t>(code_point_at(text, 0).size); cut < text.size();
         cut += static_cast<size_t>(code_point_at(text, cut).size)) {
      const auto left = bpe.pieces.find(text.substr(0, cut)), right = bpe.pieces.find(text.substr(cut));
      if (!left || !right || !may_merge(model.pieces[static_cast<size_t>(*left)]) ||
          !may_merge(model.pieces[static_cast<size_t>(*right)]))
        continue;
      bpe.merge_list.push_back({*left, *right, static_cast<int32_t>(id), rank_of_score[piece.score]});
    }
  }
  std::ranges::stable_sort(bpe.merge_list, {}, &Merge::rank);
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

std::string normalize_by_sentencepiece(const SentencePieceStep& step, std::string_view text) {
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
    if (!t->model.pieces.add(piece.text, id))
      throw Error(ErrorKind::bad_file, "{}: piece {}: '{}' stands there twice", place, i, piece.text);
    if (piece.type == PieceType::unknown && unknown)
      throw Error(ErrorKind::bad_file, "{}: pieces {} and {} are both the unknown piece", place, *unknown, i);
    if (piece.type == PieceType::unknown) unknown = id;
    if (piece.type == PieceType::byte && !model.byte_fallback)
      throw Error(ErrorKind::bad_file, "{}: piece {}: '{}' is a byte, and the model has no byte fallback", place, i,
                  piece.text);
    if (piece.type == PieceType::unused && !model.is_unigram)
      throw Error(ErrorKind::bad_file, "{}: piece {}: '{}' is unused, which tern reads in Unigram models only", place,
                  i, piece.text);
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
