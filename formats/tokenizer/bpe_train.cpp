#include "formats/tokenizer/bpe_train.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "base/utf8.h"
#include "formats/tokenizer/added.h"
#include "formats/tokenizer/bpe.h"
#include "formats/tokenizer/byte_level.h"
#include "formats/tokenizer/piece_table.h"
#include "formats/tokenizer/regex.h"
#include "formats/tokenizer/scan.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {

namespace {

// A distinct word of the text: its pieces so far, and how often it occurs.
struct TrainWord {
  std::vector<int32_t> pieces;
  int64_t count;
};

using Pair = uint64_t;  // left id << 32 | right id: the order of pairs is the order of these numbers
Pair pair_of(int32_t left, int32_t right) { return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right); }

struct PairState {
  int64_t count = 0;
  std::vector<uint32_t> words;  // that held the pair when noted; may name a word twice or one that lost the pair
};

struct Candidate {
  int64_t count;
  Pair pair;
  bool operator<(const Candidate& other) const {  // top of the queue: most frequent, then smallest pair
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

constexpr size_t kWindowBytes = size_t{4} << 20;
constexpr int64_t kBytesPerWord = 256, kBytesPerWordByte = 48;

// A part of a long text: up to `end`, of which the words from `next` on belong to the part behind it.
struct PartEnd {
  size_t end, next;
};

// Whether a word begins at `at` whatever stands around it, and is known to once `seen` more bytes are: at a blank before a
// letter, at a letter (or one of the commonest ideographs) behind a line's end, at what becomes U+FFFD behind a letter.
bool begins_word(std::string_view text, size_t at, Utf8Repair repair, size_t& seen) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto c = static_cast<uint8_t>(text[at]);
  if (c == ' ') {
    seen = 2;
    return at + seen <= text.size() && is_letter(text[at + 1]);
  }
  if (at == 0 || (c >= 0x80 && at + 4 > text.size())) return false;
  if (c < 0x80) {
    seen = 1;
    return text[at - 1] == '\n' && is_letter(text[at]);
  }
  const DecodedChar character = decode_utf8(text.substr(at, 4));
  seen = static_cast<size_t>(character.num_bytes);
  if (!character.valid) return repair == Utf8Repair::mark && is_letter(text[at - 1]);
  return text[at - 1] == '\n' && c >= 0xE4 && c <= 0xE9;
}

class WordCounter {
 public:
  explicit WordCounter(const BpeTrainOptions& options)
      : options_(options), kind_(options.pattern == SplitPattern::gpt2 ? ScanKind::gpt2 : ScanKind::llama3) {
    for (const std::string& content : options.special_tokens) {
      specials_.add(content, static_cast<uint32_t>(tokens_.size()));
      tokens_.push_back({static_cast<int32_t>(tokens_.size()), content, false, false, false, false, true});
      // A part may end within it.
      whole_texts_ = whole_texts_ || content.find_first_of(" \n\xEF") != content.npos;
    }
    specials_.seal();
  }

  void add(std::string_view text) {
    for (size_t begin = 0; begin < text.size();) {
      const PartEnd part = part_from(text, begin);
      add_part(text.substr(begin, part.end - begin), part.end - part.next);
      if (options_.read && text.size() > kWindowBytes) options_.read(text.substr(begin, part.next - begin));
      begin = part.next;
    }
  }

  // Sorted, so that nothing depends on the order of a hash table.
  std::vector<std::pair<std::string, int64_t>> sorted() const {
    std::vector<std::pair<std::string, int64_t>> words(counts_.begin(), counts_.end());
    std::ranges::sort(words);
    return words;
  }

 private:
  PartEnd part_from(std::string_view text, size_t begin) const {
    for (size_t size = kWindowBytes, seen = 0; !whole_texts_ && text.size() - begin > size; size *= 2) {
      for (size_t at = begin + size - 1; at > begin; --at)
        if (begins_word(text, at, options_.repair, seen)) return {at + seen, at};
      require(2 * static_cast<int64_t>(size), text.size());  // looked at as a whole
    }
    return {text.size(), text.size()};
  }

  void require(int64_t more_bytes, size_t text_bytes) const {
    const int64_t needed = held_ + more_bytes;
    if (needed <= options_.memory_bytes || needed <= kAlwaysBytes) return;
    throw Error(
        ErrorKind::does_not_fit,
        "train a tokenizer: {} distinct words so far and the next of a text of {} take up to {}; there are {} for "
        "them: train on less text, or allow more memory (--memory)",
        counts_.size(), format_bytes(static_cast<int64_t>(text_bytes)), format_bytes(needed),
        format_bytes(std::max<int64_t>(options_.memory_bytes, 0)));
  }

  // But for its last `overhang` bytes, which begin a word of the next part.
  void add_part(std::string_view text, size_t overhang) {
    std::string valid;
    if (!is_valid_utf8(text)) {
      const size_t bytes = repaired_utf8_size(text, options_.repair);
      if (text.size() > kWindowBytes) require(static_cast<int64_t>(text.size() + bytes), text.size());
      valid.reserve(bytes);
      append_repaired_utf8(valid, text, options_.repair);
      overhang = repaired_utf8_size(text.substr(text.size() - overhang), options_.repair);
      text = valid;
    }
    const size_t stop = text.size() - overhang;
    parts_.clear();
    specials_.split(text, tokens_, true, parts_);
    for (const AddedMatcher::Part& part : parts_) {
      if (part.token >= 0) continue;
      const std::string_view between = text.substr(part.begin, part.end - part.begin);
      for (size_t begin = 0; begin < between.size() && part.begin + begin < stop;) {
        const size_t end = scan_piece(kind_, between, begin);
        count(between.substr(begin, end - begin));
        begin = end;
      }
    }
  }

  void count(std::string_view word) {
    key_.assign(word);
    if (const auto found = counts_.find(key_); found != counts_.end()) {
      ++found->second;
      return;
    }
    const int64_t more = kBytesPerWord + kBytesPerWordByte * static_cast<int64_t>(word.size());
    require(more, word.size());
    held_ += more;
    counts_.emplace(key_, 1);
  }

  static constexpr int64_t kAlwaysBytes = 1 << 20;
  const BpeTrainOptions& options_;
  ScanKind kind_;
  AddedMatcher specials_;
  std::vector<AddedToken> tokens_;
  bool whole_texts_ = false;
  std::unordered_map<std::string, int64_t> counts_;
  int64_t held_ = 0;
  std::string key_;
  std::vector<AddedMatcher::Part> parts_;
};

std::vector<std::pair<std::string, int64_t>> count_words(const TextSource& next, const BpeTrainOptions& options) {
  WordCounter counter(options);
  for (std::string_view text; next(text);) counter.add(text);
  return counter.sorted();
}

class Trainer {
 public:
  explicit Trainer(std::vector<TrainWord> words) : words_(std::move(words)) {
    for (uint32_t w = 0; w < words_.size(); ++w) {
      for (size_t i = 0; i + 1 < words_[w].pieces.size(); ++i) {
        add(words_[w].pieces[i], words_[w].pieces[i + 1], words_[w].count, w);
        touched_.clear();  // all pairs are queued below
      }
    }
    for (const auto& [pair, state] : pairs_) queue_.push({state.count, pair});
  }

  /// The next merge, or nothing when no pair is frequent enough.
  std::optional<Pair> best(int64_t min_frequency) {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const int64_t now = pairs_[top.pair].count;
      if (now == top.count) {
        if (now < std::max<int64_t>(1, min_frequency)) return std::nullopt;
        return top.pair;
      }
      if (now > 0 && now < top.count) queue_.push({now, top.pair});  // it only lost: put it where it belongs now
    }
    return std::nullopt;
  }

  void merge(Pair pair, int32_t result) {
    const auto left = static_cast<int32_t>(pair >> 32), right = static_cast<int32_t>(pair & 0xFFFFFFFF);
    const std::vector<uint32_t> where = std::move(pairs_[pair].words);
    for (const uint32_t w : where) merge_in(w, left, right, result);
    pairs_[pair] = {};
    std::ranges::sort(touched_);
    touched_.erase(std::ranges::unique(touched_).begin(), touched_.end());
    for (const Pair changed : touched_)
      if (const int64_t count = pairs_[changed].count; count > 0) queue_.push({count, changed});
    touched_.clear();
  }

 private:
  void add(int32_t left, int32_t right, int64_t count, uint32_t word) {
    const Pair pair = pair_of(left, right);
    PairState& state = pairs_[pair];
    state.count += count;
    if (count > 0) {
      if (state.words.empty() || state.words.back() != word) state.words.push_back(word);
      touched_.push_back(pair);
    }
  }

  // Every (left, right) of the word, left to right, becomes `result`; counts of the neighbours follow.
  void merge_in(uint32_t w, int32_t left, int32_t right, int32_t result) {
    std::vector<int32_t>& p = words_[w].pieces;
    const int64_t count = words_[w].count;
    size_t out = 0;
    for (size_t i = 0; i < p.size();) {
      if (i + 1 >= p.size() || p[i] != left || p[i + 1] != right) {
        p[out++] = p[i++];
        continue;
      }
      add(left, right, -count, w);
      if (out > 0) {
        add(p[out - 1], left, -count, w);
        add(p[out - 1], result, count, w);
      }
      if (i + 2 < p.size()) {
        add(right, p[i + 2], -count, w);
        add(result, p[i + 2], count, w);
      }
      p[out++] = result;
      i += 2;
    }
    p.resize(out);
  }

  std::vector<TrainWord> words_;
  std::unordered_map<Pair, PairState> pairs_;
  std::vector<Pair> touched_;
  std::priority_queue<Candidate> queue_;
};

void add_specials(TokenizerData& t, const std::vector<std::string>& contents) {
  for (const std::string& content : contents) {
    const auto id = static_cast<int32_t>(t.added.size());
    if (content.empty() || !t.model.pieces.add(content, id))
      throw Error(ErrorKind::usage, "train a tokenizer: special token '{}' is empty or given twice", content);
    t.added.push_back({id, content, false, false, false, false, true});
  }
}

std::array<int32_t, 256> add_bytes(PieceTable& pieces) {
  std::array<int32_t, 256> id_of_byte{};
  for (uint32_t c = 0; c < 0x144; ++c) {
    const int byte = byte_of_character(c);
    if (byte < 0) continue;
    std::string spelled;
    append_byte_level(std::string(1, static_cast<char>(byte)), spelled);
    const auto id = static_cast<int32_t>(pieces.num_ids());
    if (!pieces.add(spelled, id))
      throw Error(ErrorKind::usage, "train a tokenizer: special token '{}' is also a byte's piece; use a longer one",
                  spelled);
    id_of_byte[static_cast<size_t>(byte)] = id;
  }
  return id_of_byte;
}

}  // namespace

Tokenizer train_bpe(const TextSource& next, const BpeTrainOptions& options) {
  const auto num_specials = static_cast<int64_t>(options.special_tokens.size());
  if (options.vocab_size < 256 + num_specials)
    throw Error(ErrorKind::usage,
                "train a tokenizer: --vocab-size {} leaves no room; at least {}: 256 bytes and {} special tokens",
                options.vocab_size, 256 + num_specials, num_specials);
  auto t = std::make_unique<TokenizerData>();
  t->place = "trained tokenizer";

  // Ids: special tokens, then the bytes in the order of their characters, then a piece per merge.
  BpeModel& m = t->model;
  add_specials(*t, options.special_tokens);
  const std::array<int32_t, 256> id_of_byte = add_bytes(m.pieces);

  std::vector<TrainWord> words;
  for (const auto& [text, count] : count_words(next, options)) {
    words.push_back({{}, count});
    for (const char b : text) words.back().pieces.push_back(id_of_byte[static_cast<uint8_t>(b)]);
  }
  Trainer trainer(std::move(words));
  while (m.pieces.num_ids() < options.vocab_size) {
    const auto pair = trainer.best(options.min_frequency);
    if (!pair) break;
    const auto left = static_cast<int32_t>(*pair >> 32), right = static_cast<int32_t>(*pair & 0xFFFFFFFF);
    const std::string spelled = std::string(m.pieces.text(left)) + std::string(m.pieces.text(right));
    int32_t id = m.pieces.find(spelled).value_or(-1);  // two ways to one piece are two merges
    if (id < 0) {
      id = static_cast<int32_t>(m.pieces.num_ids());
      m.pieces.add(spelled, id);
    }
    m.merge_list.push_back({left, right, id, static_cast<uint32_t>(m.merge_list.size())});
    trainer.merge(*pair, id);
  }

  const std::string byte_level =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  std::string split = byte_level;
  if (options.pattern == SplitPattern::llama3)
    split =
        R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)" +
        quote_json(pattern_of(ScanKind::llama3)) +
        R"(},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,)"
        R"("use_regex":false}]})";
  set_components(*t, {"null", split, "null", byte_level});
  TokenizerConfig config;
  if (!options.special_tokens.empty()) config.bos = config.eos = options.special_tokens[0];
  return finish_tokenizer(std::move(t), std::move(config));
}

}  // namespace tern
