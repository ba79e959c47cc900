#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/tokenizer/bpe.h"
#include "formats/tokenizer/byte_level.h"
#include "formats/tokenizer/normal_form.h"
#include "formats/tokenizer/normalize.h"
#include "formats/tokenizer/sentencepiece.h"
#include "formats/tokenizer/unicode.h"

namespace tern {

namespace {

std::string replace_matches(const std::vector<TextSpan>& matches, std::string_view text, std::string_view content,
                            TextBudget& budget) {
  std::string out;
  size_t done = 0;
  for (const TextSpan m : matches) {
    budget.check_bytes(out.size() + (m.begin - done) + content.size(), "normalizer: Replace");
    out.append(text.substr(done, m.begin - done)).append(content);
    done = m.end;
  }
  return out.append(text.substr(done));
}

struct Normalizing {
  std::string text;
  TextBudget& budget;
  // How many characters in front come from the text's first one: when all of them are gone, the front is.
  size_t num_front = 1;
  bool front_removed = false, put_before_the_front = false;

  size_t front_bytes() const {
    size_t front = 0;
    for (size_t k = 0; k < num_front && front < text.size(); ++k)
      front += static_cast<size_t>(code_point_at(text, front).size);
    return front;
  }
  void remove_front(size_t num_characters) {
    front_removed |= num_characters >= num_front && num_characters > 0;
    num_front -= std::min(num_front, num_characters);
  }
  // `rewrite`: text -> text, character by character or nearly so.
  template <class Rewrite>
  void rewrite_text(const Rewrite& rewrite) {
    if (num_front > 0)
      num_front = std::max<size_t>(1, count_utf8(rewrite(std::string_view(text).substr(0, front_bytes()))));
    text = rewrite(text);
  }

  void operator()(const PrependStep& s) {
    if (text.empty() || s.text.empty()) return;
    budget.check_bytes(text.size() + s.text.size(), "normalizer: Prepend");
    text.insert(0, s.text);
    num_front += count_utf8(s.text);  // comes from where the first character comes from
  }
  // What replaces a match comes from where the match's last character comes from; of a match of nothing, the one before.
  void operator()(const ReplaceStep& s) {
    std::vector<TextSpan> matches;
    if (!text.empty()) s.pattern.find_all(text, matches, budget);  // the reference finds none in an empty text
    const size_t front = front_bytes();
    size_t kept = 0, done = 0;  // characters of the new text that come from the first one
    for (const TextSpan m : matches) {
      if (m.begin >= front && m.end > front) break;
      kept += count_utf8(std::string_view(text).substr(done, m.begin - done));
      if (m.end <= front) kept += count_utf8(s.content);
      put_before_the_front |= m.end == 0 && !s.content.empty();
      done = m.end;
    }
    if (done < front) kept += count_utf8(std::string_view(text).substr(done, front - done));
    front_removed |= kept == 0 && front > 0;
    num_front = kept;
    text = replace_matches(matches, text, s.content, budget);
  }
  void operator()(const UnicodeStep& s) {
    rewrite_text([&](std::string_view t) { return normalize_unicode(t, s.form); });
  }
  void operator()(const LowercaseStep&) { rewrite_text(lowercase_unicode); }
  void operator()(const StripAccentsStep&) {
    rewrite_characters([](std::string& out, std::string_view character, uint32_t c) {
      if (!in_class(CharClass::accent, c)) out += character;
    });
  }
  void operator()(const StripSpacesStep& s) {
    size_t begin = 0, end = text.size();
    while (s.left && begin < end && is_space(code_point_at(text, begin).value))
      begin += static_cast<size_t>(code_point_at(text, begin).size);
    while (s.right && end > begin && is_space(code_point_at(text, code_point_before(text, end)).value))
      end = code_point_before(text, end);
    remove_front(count_utf8(std::string_view(text).substr(0, begin)));
    text = text.substr(begin, end - begin);
  }
  // Each character as `rewrite(out, c)` writes it.
  template <class Rewrite>
  void rewrite_characters(const Rewrite& rewrite) {
    std::string out;
    out.reserve(text.size());
    const size_t front = front_bytes();
    size_t kept = 0;  // what comes from the front
    for (size_t i = 0; i < text.size();) {
      const CodePoint c = code_point_at(text, i);
      const size_t before = out.size();
      rewrite(out, std::string_view(text).substr(i, static_cast<size_t>(c.size)), c.value);
      if (i < front) kept += count_utf8(std::string_view(out).substr(before));
      i += static_cast<size_t>(c.size);
    }
    front_removed |= kept == 0 && front > 0;
    num_front = kept;
    text = std::move(out);
  }
  void operator()(const BertStep& s) {
    if (s.clean_text)
      rewrite_characters([](std::string& out, std::string_view character, uint32_t c) {
        if (in_class(CharClass::bert_space, c))
          out += ' ';
        else if (!in_class(CharClass::bert_removed, c))
          out += character;
      });
    if (s.chinese_alone)
      rewrite_characters([](std::string& out, std::string_view character, uint32_t c) {
        const bool alone = in_class(CharClass::bert_alone, c);
        if (alone) out += ' ';
        out += character;
        if (alone) out += ' ';
      });
    if (s.strip_accents) {
      rewrite_text([](std::string_view t) { return normalize_unicode(t, NormalForm::nfd); });
      rewrite_characters([](std::string& out, std::string_view character, uint32_t c) {
        if (!in_class(CharClass::bert_accent, c)) out += character;
      });
    }
    if (s.lowercase) rewrite_text(lowercase_unicode);
  }
  void operator()(const NmtStep&) {
    rewrite_characters([](std::string& out, std::string_view character, uint32_t c) {
      const bool removed =
          (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
      const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
      if (space)
        out += ' ';
      else if (!removed)
        out += character;
    });
  }
  void operator()(const CharsmapStep& s) {
    if (s.map) rewrite_text([&](std::string_view t) { return apply_by_clusters(*s.map, t, budget); });
  }
  void operator()(const SentencePieceStep& s) { text = normalize_by_sentencepiece(s, text, budget); }
  void operator()(const ByteLevelTextStep&) {
    num_front = front_bytes();  // each byte becomes a character
    std::string out;
    append_byte_level(text, out);
    text = std::move(out);
  }
};

}  // namespace

NormalizedText normalize(const std::vector<NormalizeStep>& steps, std::string_view text, TextBudget& budget) {
  Normalizing state{std::string(text), budget};
  for (const NormalizeStep& step : steps) {
    const bool keeps_origins = std::holds_alternative<ReplaceStep>(step) || std::holds_alternative<PrependStep>(step);
    if (state.put_before_the_front && !keeps_origins)
      throw Error(ErrorKind::bad_file,
                  "normalizer: a Replace puts text before the first character, and a step follows that the reference "
                  "tokenizer cannot run on it; let the pattern match at least one character");
    const size_t before = state.text.size();
    std::visit(state, step);
    budget.check_bytes(state.text.size(), "the normalizer");
    budget.spend_work(before + state.text.size(), "the normalizer");
  }
  budget.spend_bytes(state.text.size(), "the normalizer");
  const size_t front = state.front_removed ? 0 : state.front_bytes();
  return {std::move(state.text), front, state.put_before_the_front};
}

}  // namespace tern
