#include "formats/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "base/utf8.h"
#include "formats/tokenizer/piece_table.h"
#include "formats/tokenizer/scan.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {

namespace {

// The memory of one encode call, taken from the tokenizer's pool and given back: calls in parallel each have their own.
class ScratchLease {
 public:
  explicit ScratchLease(const TokenizerData& t) : t_(t) {
    const std::lock_guard lock(t_.scratch_mutex);
    if (t_.scratch.empty()) {
      scratch_ = std::make_unique<EncodeScratch>();
    } else {
      scratch_ = std::move(t_.scratch.back());
      t_.scratch.pop_back();
    }
  }
  ~ScratchLease() {
    constexpr size_t kKeepBytes = 1 << 24;  // a giant text's memory goes back to the system
    if (scratch_->words.text.capacity() > kKeepBytes) return;
    const std::lock_guard lock(t_.scratch_mutex);
    t_.scratch.push_back(std::move(scratch_));
  }
  ScratchLease(const ScratchLease&) = delete;
  ScratchLease& operator=(const ScratchLease&) = delete;
  EncodeScratch& operator*() { return *scratch_; }

 private:
  const TokenizerData& t_;
  std::unique_ptr<EncodeScratch> scratch_;
};

void run_model(const TokenizerData& t, std::string_view word, EncodeScratch& s, TextBudget& budget,
               std::vector<int32_t>& ids) {
  switch (t.kind) {
    case ModelKind::bpe:
      return encode_bpe(t.model, word, s.bpe, ids);
    case ModelKind::unigram:
      return encode_unigram(t.unigram, t.model.pieces, word, s.unigram, budget, ids);
    case ModelKind::word_piece:
      return encode_word_piece(t.word_piece, word, budget, ids);
  }
}

void encode_word(const TokenizerData& t, std::string_view word, EncodeScratch& s, TextBudget& budget,
                 std::vector<int32_t>& ids) {
  if (word.empty()) return;
  if (!WordCache::takes(word)) return run_model(t, word, s, budget, ids);
  const uint64_t hash = hash_word(word);
  if (s.cache.find(word, hash, ids)) return;
  const size_t first = ids.size();
  run_model(t, word, s, budget, ids);
  s.cache.remember(word, hash, std::span(ids).subspan(first));
}

// A whole text is one word to SentencePiece-style models. Where no merge crosses into a run of "▁", its stretches
// between are encoded one by one, and repeated ones come from the cache.
void encode_stretches(const TokenizerData& t, std::string_view text, EncodeScratch& s, TextBudget& budget,
                      std::vector<int32_t>& ids) {
  for (size_t begin = 0; begin < text.size();) {
    size_t at = begin;
    while (text.substr(at).starts_with(kMetaspace)) at += kMetaspace.size();
    const size_t end = std::min(text.find(kMetaspace, at), text.size());
    encode_word(t, text.substr(begin, end - begin), s, budget, ids);
    begin = end;
  }
}

void encode_plain(const TokenizerData& t, std::string_view text, size_t front, EncodeScratch& s, TextBudget& budget,
                  std::vector<int32_t>& ids) {
  if (t.splitters.empty() && t.model.cuts_at_metaspace) return encode_stretches(t, text, s, budget, ids);
  if (t.scanner) {  // words come and go one by one
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = scan_piece(*t.scanner, text, begin);
      encode_word(t, text.substr(begin, end - begin), s, budget, ids);
      begin = end;
    }
    return;
  }
  split_words(t.splitters, text, front, s.words, budget);
  for (const Word& word : s.words.words)
    encode_word(t, std::string_view(s.words.text).substr(word.begin, word.end - word.begin), s, budget, ids);
}

// The reference doubles text before the front in a ByteLevel step, and each word of it is the first one to Metaspace.
void check_pre_tokenizer_takes_front(const TokenizerData& t) {
  bool miscounts = t.model.byte_level_input;
  for (const SplitTextStep& step : t.splitters) {
    const MetaspaceStep* metaspace = std::get_if<MetaspaceStep>(&step);
    miscounts |= std::holds_alternative<ByteLevelStep>(step) ||
                 (metaspace && metaspace->scheme == PrependScheme::first && &step != &t.splitters.front());
  }
  if (miscounts)
    throw Error(
        ErrorKind::bad_file,
        "normalizer: a Replace puts text before the first character, which the reference tokenizer "
        "miscounts in the pre-tokenizer's ByteLevel and Metaspace; let the pattern match at least one character");
}

void encode_text(const TokenizerData& t, std::string_view text, const EncodeOptions& options, EncodeScratch& s,
                 std::vector<int32_t>& ids) {
  const PlainRanges plain{options.plain, options.plain_tokens};
  TextBudget budget(text.size());
  s.parts.clear();
  t.raw_matcher.split(text, t.added, options.allow_special, s.parts, plain, &budget);
  for (const AddedMatcher::Part& part : s.parts) {
    if (part.token >= 0) {
      ids.push_back(t.added[static_cast<size_t>(part.token)].id);
      continue;
    }
    std::string_view piece = text.substr(part.begin, part.end - part.begin);
    NormalizedText normalized{.front = 1};
    if (!t.normalizers.empty()) {
      normalized = normalize(t.normalizers, piece, budget);
      piece = normalized.text;
      if (normalized.put_before_the_front) check_pre_tokenizer_takes_front(t);
    }
    s.inner_parts.clear();
    const TextSpan whole{0, piece.size()};  // of the normalized text, whose bytes stand elsewhere
    const bool touched = plain.touches(part.begin, part.end);
    t.normalized_matcher.split(piece, t.added, options.allow_special, s.inner_parts,
                               {std::span(&whole, touched ? 1 : 0), options.plain_tokens}, &budget);
    for (const AddedMatcher::Part& inner : s.inner_parts) {
      if (inner.token >= 0) {
        ids.push_back(t.added[static_cast<size_t>(inner.token)].id);
        continue;
      }
      const size_t front = part.begin > 0 ? 0 : normalized.front - std::min(normalized.front, inner.begin);
      encode_plain(t, piece.substr(inner.begin, inner.end - inner.begin), front, s, budget, ids);
    }
  }
}

std::string_view text_of_id(const TokenizerData& t, int64_t id, bool for_decoding) {
  if (id < 0 || id >= t.vocab_size) return {};
  const int32_t added = t.added_of_id[static_cast<size_t>(id)];
  if (added < 0) return t.model.pieces.text(id);
  return for_decoding ? t.decode_content[static_cast<size_t>(added)] : t.added[static_cast<size_t>(added)].content;
}

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<int32_t> ids;
  encode_into(text, options, ids);
  return ids;
}

void Tokenizer::encode_into(std::string_view text, EncodeOptions options, std::vector<int32_t>& ids) const {
  std::string valid;
  if (!is_valid_utf8(text)) {
    if (!options.plain.empty())
      throw Error(ErrorKind::usage, "encode: a text that is not UTF-8 cannot carry ranges of plain text");
    text = valid = make_valid_utf8(text);
  }
  ScratchLease scratch(*data_);
  for (const TemplateItem& item : data_->around) {
    if (item.is_text)
      encode_text(*data_, text, options, *scratch, ids);
    else if (options.add_special)
      ids.insert(ids.end(), item.ids.begin(), item.ids.end());
  }
}

namespace {

// Whether text, in every part alike, becomes words that end where a letter is followed by a space and another letter.
bool ends_words_at_spaces(const TokenizerData& t) {
  for (const NormalizeStep& step : t.normalizers)
    if (!std::holds_alternative<UnicodeStep>(step) && !std::holds_alternative<LowercaseStep>(step)) return false;
  if (t.splitters.empty()) return false;
  if (const auto* bytes = std::get_if<ByteLevelStep>(&t.splitters.front())) return bytes->use_regex;
  const auto* split = std::get_if<SplitStep>(&t.splitters.front());
  return split && split->behavior == SplitBehavior::isolated && split->pattern.scanner() &&
         scan_tiles(*split->pattern.scanner());
}

// SentencePiece's way: every space becomes "▁", one more stands before the text, and no merge reaches over them.
bool puts_metaspace_first(const TokenizerData& t) {
  if (!t.splitters.empty() || !t.model.cuts_at_metaspace || t.normalizers.size() != 2) return false;
  const auto* prepend = std::get_if<PrependStep>(&t.normalizers[0]);
  const auto* replace = std::get_if<ReplaceStep>(&t.normalizers[1]);
  return prepend && replace && prepend->text == kMetaspace && replace->content == kMetaspace &&
         replace->pattern.is_literal() && replace->pattern.pattern() == " ";
}

}  // namespace

TextCut Tokenizer::find_cut(std::string_view text, size_t near) const {
  const TokenizerData& t = *data_;
  const bool drops_space = puts_metaspace_first(t);
  if (!drops_space && !ends_words_at_spaces(t)) return {};
  for (const AddedToken& token : t.added)  // those that may reach over a cut
    if (!token.special && (token.rstrip || token.content.find(' ') != std::string::npos ||
                           token.content.find(kMetaspace) != std::string::npos))
      return {};
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (size_t at = std::min(near, text.size() - std::min<size_t>(text.size(), 2)); at > near / 2; --at)
    if (text[at] == ' ' && is_letter(text[at - 1]) && is_letter(text[at + 1])) return {at, at + drops_space};
  return {};
}

std::string Tokenizer::decode(std::span<const int32_t> ids, DecodeOptions options) const {
  StreamingDecoder decoder(*this, options);
  std::string text;
  for (const int32_t id : ids) text += decoder.push(id);
  return text += decoder.finish();
}

int64_t Tokenizer::vocab_size() const { return data_->vocab_size; }
bool Tokenizer::has(int64_t id) const {
  return id >= 0 && id < data_->vocab_size &&
         (data_->added_of_id[static_cast<size_t>(id)] >= 0 || data_->model.pieces.has(id));
}
std::string_view Tokenizer::piece(int64_t id) const { return text_of_id(*data_, id, false); }
std::string Tokenizer::token_bytes(int64_t id) const {
  return has(id) ? bytes_of_piece(data_->decoders, text_of_id(*data_, id, true)) : std::string();
}
std::optional<int32_t> Tokenizer::id_of(std::string_view piece) const {
  for (const AddedToken& token : data_->added)
    if (token.content == piece) return token.id;
  return data_->model.pieces.find(piece);
}
bool Tokenizer::is_special(int64_t id) const {
  if (id < 0 || id >= data_->vocab_size) return false;
  const int32_t added = data_->added_of_id[static_cast<size_t>(id)];
  return added >= 0 && data_->added[static_cast<size_t>(added)].special;
}
std::optional<int32_t> Tokenizer::bos() const { return data_->bos; }
std::optional<int32_t> Tokenizer::eos() const { return data_->eos; }
std::optional<int32_t> Tokenizer::unk() const { return data_->unk; }
std::optional<int32_t> Tokenizer::pad() const { return data_->pad; }
bool Tokenizer::adds_bos() const { return data_->adds_bos; }
bool Tokenizer::adds_eos() const { return data_->adds_eos; }
bool Tokenizer::has_chat_template() const { return data_->config.has_chat_template; }
std::string Tokenizer::hash() const { return data_->hash; }

std::string Tokenizer::describe() const {
  const bool fallback = data_->model.byte_fallback;
  const std::string added = counted(static_cast<int64_t>(data_->added.size()), "added token");
  if (data_->kind != ModelKind::bpe)
    return fmt::format("{}, {} pieces, {}",
                       data_->kind == ModelKind::word_piece ? "WordPiece"
                       : data_->unigram.byte_fallback       ? "byte-fallback Unigram"
                                                            : "Unigram",
                       data_->model.pieces.num_pieces(), added);
  return fmt::format("{} BPE, {} pieces, {} merges, {}",
                     data_->model.byte_level_input ? "byte-level"
                     : fallback                    ? "byte-fallback"
                                                   : "character",
                     data_->model.pieces.num_pieces(), data_->model.merge_list.size(), added);
}

struct StreamingDecoder::State {
  Tokenizer tokenizer;
  DecodeOptions options;
  DecodePipeline pipeline;
};

StreamingDecoder::StreamingDecoder(Tokenizer tokenizer, DecodeOptions options) {
  const TokenizerData& t = tokenizer.data();
  const auto& steps = options.clean_up.value_or(t.config.clean_up) ? t.cleaning_decoders : t.decoders;
  state_ = std::make_unique<State>(State{std::move(tokenizer), options, DecodePipeline(steps)});
}
StreamingDecoder::~StreamingDecoder() = default;
StreamingDecoder::StreamingDecoder(StreamingDecoder&&) noexcept = default;
StreamingDecoder& StreamingDecoder::operator=(StreamingDecoder&&) noexcept = default;

std::string StreamingDecoder::push(int32_t id) {
  std::string text;
  const Tokenizer& t = state_->tokenizer;
  if (!t.has(id) || (state_->options.skip_special && t.is_special(id))) return text;
  state_->pipeline.push(text_of_id(t.data(), id, true), text);
  return text;
}

std::string StreamingDecoder::finish() {
  std::string text;
  state_->pipeline.finish(text);
  return text;
}

}  // namespace tern
