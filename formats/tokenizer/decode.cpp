// Decode steps as a chain of stages. A step of the reference sees the whole list of pieces; a stage sees them one by
// one and keeps only what the next piece could still change. Behind Fuse or ByteLevel there is one piece, which arrives
// in parts.
#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/tokenizer/bpe.h"
#include "formats/tokenizer/byte_level.h"
#include "formats/tokenizer/decode.h"
#include "formats/tokenizer/literal.h"
#include "formats/tokenizer/piece_table.h"
#include "formats/tokenizer/unicode.h"

namespace tern {

// Hands text on to the stages from one on.
struct DecodePipeline::Next {
  DecodePipeline& pipeline;
  size_t stage;
  std::string& out;
  TextBudget& budget;

  void operator()(std::string_view text) const { pipeline.feed(stage, text, out); }
};

struct DecodePipeline::Stage {
  const DecodeStep* step = nullptr;
  bool in_parts = false;  // what arrives are parts of one piece
  std::string waiting;
  std::string previous;  // CtcDecode: the piece before this one
  int64_t num_seen = 0;  // pieces; in StripDecode in parts: leading characters looked at
  bool leading_done = false;
  std::vector<size_t> borders{};  // of a literal that is looked for in parts: made once

  void reset() {
    waiting.clear();
    previous.clear();
    num_seen = 0;
    leading_done = false;
  }

  // What a step does with the next piece, or the next part of the only one.
  void take(const FuseDecode&, std::string_view piece, const Next& pass);
  void take(const JoinDecode&, std::string_view piece, const Next& pass);
  void take(const ByteLevelDecode&, std::string_view piece, const Next& pass);
  void take(const ByteFallbackDecode&, std::string_view piece, const Next& pass);
  void take(const StripDecode&, std::string_view piece, const Next& pass);
  void take(const LeadingSpaceDecode&, std::string_view piece, const Next& pass);
  void take(const ReplaceDecode&, std::string_view piece, const Next& pass);
  void take(const MetaspaceDecode&, std::string_view piece, const Next& pass);
  void take(const WordPieceDecode&, std::string_view piece, const Next& pass);
  void take(const CtcDecode&, std::string_view piece, const Next& pass);
  void take(const SuffixDecode&, std::string_view piece, const Next& pass);
  void replace_literal(const ReplaceDecode&, std::string_view piece, const Next& pass);
};

namespace {

constexpr const char* kDecoder = "the decoder";
std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// "<0xNN>"; as the reference parses it, a sign before one digit passes for a number.
int byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  if (piece[3] == '+') return digit(piece[4]);
  const int high = digit(piece[3]), low = digit(piece[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string decoded_bytes(std::string_view bytes) {
  if (is_valid_utf8(bytes)) return std::string(bytes);
  std::string out;
  for (size_t i = 0; i < bytes.size(); ++i) out += kReplacementCharacter;
  return out;
}

std::string stripped(const StripDecode& s, std::string_view piece) {
  std::vector<size_t> begins;  // of the characters, and the end
  for (size_t i = 0; i < piece.size(); i += static_cast<size_t>(code_point_at(piece, i).size)) begins.push_back(i);
  size_t first = 0, last = begins.size();
  begins.push_back(piece.size());
  const auto is_content = [&](size_t k) { return code_point_at(piece, begins[k]).value == s.content; };
  while (first < last && static_cast<int64_t>(first) < s.start && is_content(first)) ++first;
  const size_t all = last;
  while (last > first && static_cast<int64_t>(all - last) < s.stop && is_content(last - 1)) --last;
  return std::string(piece.substr(begins[first], begins[last] - begins[first]));
}

std::string replaced(const Regex& pattern, std::string_view text, std::string_view content, TextBudget& budget) {
  if (text.empty()) return {};  // no match, as for the normalizer
  std::vector<TextSpan> matches;
  pattern.find_all(text, matches, budget);
  std::string out;
  size_t done = 0;
  for (const TextSpan m : matches) {
    budget.check_bytes(out.size() + (m.begin - done) + content.size(), kDecoder);
    out.append(text.substr(done, m.begin - done)).append(content);
    done = m.end;
  }
  return out.append(text.substr(done));
}

std::string byte_level_bytes(std::string_view piece) {
  std::string out;
  for (size_t i = 0; i < piece.size();) {
    const CodePoint c = code_point_at(piece, i);
    const int byte = byte_of_character(c.value);
    if (byte < 0) return std::string(piece);  // not of the alphabet: the piece stands for itself
    out += static_cast<char>(byte);
    i += static_cast<size_t>(c.size);
  }
  return out;
}

std::string metaspace_text(const MetaspaceDecode& s, std::string_view piece, bool first) {
  std::string out;
  for (size_t i = 0; i < piece.size();) {
    if (piece.substr(i).starts_with(s.replacement)) {
      if (!(first && s.drop_first)) out += ' ';
      i += s.replacement.size();
    } else {
      out += piece[i++];
    }
  }
  return out;
}

std::string literally_replaced(std::string_view text, std::string_view literal, std::string_view content,
                               TextBudget& budget) {
  constexpr size_t kCallWork = 16;
  budget.spend_work(kCallWork + text.size(), kDecoder);
  return replaced(Regex::from_literal(literal), text, content, budget);
}

// The reference's clean-up of WordPiece and CTC, piece by piece.
std::string cleaned_up(std::string text, TextBudget& budget) {
  if (text.find(' ') == text.npos) return text;
  for (const auto& [from, to] : {std::pair{" .", "."},
                                 {" ?", "?"},
                                 {" !", "!"},
                                 {" ,", ","},
                                 {" ' ", "'"},
                                 {" n't", "n't"},
                                 {" 'm", "'m"},
                                 {" do not", " don't"},
                                 {" 's", "'s"},
                                 {" 've", "'ve"},
                                 {" 're", "'re"}})
    text = literally_replaced(text, from, to, budget);
  return text;
}

std::string word_piece_text(const WordPieceDecode& s, std::string_view piece, bool first, TextBudget& budget) {
  std::string text(piece);
  if (!first && piece.starts_with(s.prefix))
    text.erase(0, s.prefix.size());
  else if (!first)
    text.insert(0, " ");
  return s.clean_up ? cleaned_up(std::move(text), budget) : text;
}

std::string ctc_text(const CtcDecode& s, std::string_view piece, TextBudget& budget) {
  const std::string text = literally_replaced(piece, s.pad, "", budget);
  return s.clean_up ? literally_replaced(cleaned_up(text, budget), s.delimiter, " ", budget) : text;
}

}  // namespace

std::string bytes_of_piece(const std::vector<DecodeStep>& steps, std::string_view piece) {
  std::string text(piece);
  TextBudget budget(0);
  budget.add(piece.size());
  bool fused = false;
  for (const DecodeStep& step : steps) {
    if (std::holds_alternative<ByteLevelDecode>(step)) return byte_level_bytes(text);
    if (std::holds_alternative<ByteFallbackDecode>(step)) {
      if (const int byte = byte_of_piece(text); byte >= 0 && !fused) return std::string(1, static_cast<char>(byte));
    } else if (std::holds_alternative<FuseDecode>(step)) {
      fused = true;
    } else if (std::holds_alternative<LeadingSpaceDecode>(step)) {
      continue;  // of the first pieces alone
    } else if (std::holds_alternative<JoinDecode>(step)) {
      text.insert(0, " ");
    } else if (const auto* strip = std::get_if<StripDecode>(&step)) {
      if (!fused) text = stripped(*strip, text);  // else: only at the ends of the whole
    } else if (const auto* replace = std::get_if<ReplaceDecode>(&step)) {
      text = replaced(replace->pattern, text, replace->content, budget);
    } else if (const auto* metaspace = std::get_if<MetaspaceDecode>(&step)) {
      text = metaspace_text(*metaspace, text, false);
    } else if (const auto* word_piece = std::get_if<WordPieceDecode>(&step)) {
      text = word_piece_text(*word_piece, text, false, budget);
    } else {
      throw Error(ErrorKind::usage,
                  "a token of this tokenizer has no text of its own (its decoder is BPEDecoder or CTC), so its texts "
                  "cannot be held to a grammar");
    }
  }
  return text;
}

DecodePipeline::DecodePipeline(const std::vector<DecodeStep>& steps) {
  bool in_parts = false;
  for (const DecodeStep& step : steps) {
    stages_.push_back({&step, in_parts, {}, {}, 0, false});
    in_parts |= std::holds_alternative<FuseDecode>(step) || std::holds_alternative<ByteLevelDecode>(step);
  }
}
DecodePipeline::~DecodePipeline() = default;
DecodePipeline::DecodePipeline(DecodePipeline&&) noexcept = default;

void DecodePipeline::push(std::string_view piece, std::string& out) {
  budget_.add(piece.size());
  feed(0, piece, out);
}

void DecodePipeline::feed(size_t index, std::string_view piece, std::string& out) {
  budget_.spend_bytes(piece.size(), kDecoder);
  if (index == stages_.size()) {
    out += piece;
    return;
  }
  Stage& stage = stages_[index];
  const Next pass{*this, index + 1, out, budget_};
  std::visit([&](const auto& step) { stage.take(step, piece, pass); }, *stage.step);
}

void DecodePipeline::Stage::take(const FuseDecode&, std::string_view piece, const Next& pass) { pass(piece); }

void DecodePipeline::Stage::take(const JoinDecode&, std::string_view piece, const Next& pass) {
  if (num_seen++ > 0) pass(" ");
  pass(piece);
}

void DecodePipeline::Stage::take(const ByteLevelDecode&, std::string_view piece, const Next& pass) {
  if (in_parts) {  // the alphabet test needs the whole piece
    waiting += piece;
    return;
  }
  waiting += byte_level_bytes(piece);
  const size_t whole = waiting.size() - incomplete_utf8_tail(waiting);
  const std::string text = make_valid_utf8(std::string_view(waiting).substr(0, whole));
  waiting.erase(0, whole);
  if (!text.empty()) pass(text);
}

void DecodePipeline::Stage::take(const ByteFallbackDecode&, std::string_view piece, const Next& pass) {
  if (in_parts) {
    waiting += piece;
    return;
  }
  if (const int byte = byte_of_piece(piece); byte >= 0) {
    waiting += static_cast<char>(byte);
    return;
  }
  if (!waiting.empty()) {
    const std::string text = decoded_bytes(waiting);
    waiting.clear();
    pass(text);
  }
  pass(piece);
}

void DecodePipeline::Stage::take(const StripDecode& strip, std::string_view piece, const Next& pass) {
  if (!in_parts) {
    pass(stripped(strip, piece));
    return;
  }
  while (!leading_done && !piece.empty()) {  // until then nothing waits
    const CodePoint c = code_point_at(piece, 0);
    if (num_seen >= strip.start || c.value != strip.content)
      leading_done = true;
    else
      piece.remove_prefix(static_cast<size_t>(c.size)), ++num_seen;
  }
  size_t end = piece.size();  // of what is followed by nothing but the content
  while (end > 0) {
    const size_t before = code_point_before(piece, end);
    if (code_point_at(piece, before).value != strip.content) break;
    end = before;
  }
  std::string ready;
  if (end > 0) {
    ready = std::move(waiting);
    ready += piece.substr(0, end);
    waiting.clear();
  }
  waiting += piece.substr(end);  // the content alone, of which up to `stop` characters may still go
  std::string content;
  append_utf8(content, strip.content);
  const size_t most = static_cast<size_t>(std::min<int64_t>(strip.stop, INT32_MAX)) * content.size();
  if (waiting.size() > most) {
    ready.append(waiting, most);
    waiting.resize(most);
  }
  if (!ready.empty()) pass(ready);
}

void DecodePipeline::Stage::take(const LeadingSpaceDecode& space, std::string_view piece, const Next& pass) {
  if (!leading_done && piece.starts_with(kMetaspace)) {
    piece.remove_prefix(kMetaspace.size());
    leading_done = !space.every;
  }
  leading_done |= !piece.empty();
  if (!piece.empty()) pass(piece);
}

void DecodePipeline::Stage::take(const ReplaceDecode& replace, std::string_view piece, const Next& pass) {
  if (!in_parts) {
    pass(replaced(replace.pattern, piece, replace.content, pass.budget));
    return;
  }
  if (!replace.pattern.is_literal())
    waiting += piece;  // a match may need all of the text
  else if (replace.pattern.pattern().empty())
    pass(piece);
  else
    replace_literal(replace, piece, pass);
}

// What waits is the longest beginning of the literal that the text so far ends with: each byte is looked at once,
// however long the parts and the literal are.
void DecodePipeline::Stage::replace_literal(const ReplaceDecode& replace, std::string_view piece, const Next& pass) {
  constexpr size_t kReadyBytes = 1 << 16;
  const std::string& literal = replace.pattern.pattern();
  if (borders.empty()) borders = borders_of(literal);
  std::string ready;
  for (const char c : piece) {
    if (ready.size() >= kReadyBytes && (c & 0xC0) != 0x80) {  // what is passed on are whole characters
      pass(ready);
      ready.clear();
    }
    while (!waiting.empty() && literal[waiting.size()] != c) {
      const size_t shorter = borders[waiting.size() - 1];
      ready.append(literal, 0, waiting.size() - shorter);
      waiting.resize(shorter);
    }
    if (literal[waiting.size()] == c)
      waiting += c;
    else
      ready += c;
    if (waiting.size() < literal.size()) continue;
    ready += replace.content;
    waiting.clear();
  }
  if (!ready.empty()) pass(ready);
}

void DecodePipeline::Stage::take(const MetaspaceDecode& metaspace, std::string_view piece, const Next& pass) {
  pass(metaspace_text(metaspace, piece, in_parts || num_seen++ == 0));
}

void DecodePipeline::Stage::take(const WordPieceDecode& word_piece, std::string_view piece, const Next& pass) {
  if (in_parts && word_piece.clean_up)
    waiting += piece;
  else
    pass(word_piece_text(word_piece, piece, in_parts || num_seen++ == 0, pass.budget));
}

void DecodePipeline::Stage::take(const CtcDecode& ctc, std::string_view piece, const Next& pass) {
  if (in_parts) {
    waiting += piece;
    return;
  }
  if (num_seen++ > 0 && previous == piece) return;
  previous = piece;
  if (const std::string text = ctc_text(ctc, piece, pass.budget); !text.empty()) pass(text);
}

void DecodePipeline::Stage::take(const SuffixDecode& suffix, std::string_view piece, const Next& pass) {
  if (in_parts) {
    waiting += piece;
    return;
  }
  if (num_seen++ > 0) pass(literally_replaced(waiting, suffix.suffix, " ", pass.budget));
  waiting = piece;  // the last piece is treated otherwise: this one waits for the next
}

void DecodePipeline::finish(std::string& out) {
  for (size_t i = 0; i < stages_.size(); ++i) {
    Stage& stage = stages_[i];
    std::string waiting = std::move(stage.waiting);
    stage.waiting.clear();
    const auto* suffix = std::get_if<SuffixDecode>(stage.step);
    const bool last_of_pieces = suffix && !stage.in_parts && stage.num_seen > 0;  // counts even when nothing is left
    if (!waiting.empty() || last_of_pieces) {
      if (std::holds_alternative<ByteLevelDecode>(*stage.step)) {
        waiting = make_valid_utf8(stage.in_parts ? byte_level_bytes(waiting) : waiting);
      } else if (std::holds_alternative<ByteFallbackDecode>(*stage.step)) {
        if (!stage.in_parts)
          waiting = decoded_bytes(waiting);
        else if (const int byte = byte_of_piece(waiting); byte >= 0)
          waiting = decoded_bytes(std::string(1, static_cast<char>(byte)));
      } else if (std::holds_alternative<StripDecode>(*stage.step)) {
        waiting.clear();  // only content that may go waits here
      } else if (const auto* replace = std::get_if<ReplaceDecode>(stage.step)) {
        waiting = replaced(replace->pattern, waiting, replace->content, budget_);
      } else if (suffix) {
        waiting = literally_replaced(waiting, suffix->suffix, "", budget_);
      } else if (const auto* word_piece = std::get_if<WordPieceDecode>(stage.step)) {
        waiting = word_piece_text(*word_piece, waiting, true, budget_);
      } else if (const auto* ctc = std::get_if<CtcDecode>(stage.step)) {
        waiting = ctc_text(*ctc, waiting, budget_);
      }
      if (!waiting.empty() || last_of_pieces) feed(i + 1, waiting, out);
    }
    stage.reset();
  }
  budget_ = TextBudget(0);
}

}  // namespace tern
