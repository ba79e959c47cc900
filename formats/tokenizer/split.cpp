#include <fmt/core.h>

#include "formats/tokenizer/bpe.h"
#include "formats/tokenizer/byte_level.h"
#include "formats/tokenizer/scan.h"
#include "formats/tokenizer/split.h"

namespace tern {

namespace {

// What a step finds in a word: pieces that tile it, each a match or not.
struct Found {
  size_t begin, end;
  bool is_match;
};

struct Splitting {
  WordSplitter& w;
  TextBudget& budget;
  std::vector<Found> found{};

  std::string_view text_of(const Word& word) const {
    return std::string_view(w.text).substr(word.begin, word.end - word.begin);
  }

  void emit(const Word& word, size_t begin, size_t end) {
    w.next_words.push_back({word.begin + begin, word.begin + end, word.front - std::min(word.front, begin)});
  }

  // Source: the five behaviours of tokenizers' NormalizedString::split, which folds the pieces from the left, or for
  // merged_with_next from the right.
  void emit_found(const Word& word, SplitBehavior behavior) {
    bool previous_match = false;
    const size_t first = w.next_words.size();
    const auto extend = [&](const Found& f) {
      if (w.next_words.size() > first)
        w.next_words.back().end = word.begin + f.end;
      else
        emit(word, f.begin, f.end);
    };
    switch (behavior) {
      case SplitBehavior::isolated:
        for (const Found& f : found) emit(word, f.begin, f.end);
        return;
      case SplitBehavior::removed:
        for (const Found& f : found)
          if (!f.is_match) emit(word, f.begin, f.end);
        return;
      case SplitBehavior::contiguous:
        for (const Found& f : found) {
          if (f.is_match == previous_match)
            extend(f);
          else
            emit(word, f.begin, f.end);
          previous_match = f.is_match;
        }
        return;
      case SplitBehavior::merged_with_previous:
        for (const Found& f : found) {
          if (f.is_match && !previous_match)
            extend(f);
          else
            emit(word, f.begin, f.end);
          previous_match = f.is_match;
        }
        return;
      case SplitBehavior::merged_with_next: {
        std::vector<Found> merged;  // right to left
        for (auto f = found.rbegin(); f != found.rend(); ++f) {
          if (f->is_match && !previous_match && !merged.empty())
            merged.back().begin = f->begin;
          else
            merged.push_back(*f);
          previous_match = f->is_match;
        }
        for (auto f = merged.rbegin(); f != merged.rend(); ++f) emit(word, f->begin, f->end);
        return;
      }
    }
  }

  void find(const Regex& pattern, std::string_view text, bool invert) {
    w.spans.clear();
    found.clear();
    pattern.find_all(text, w.spans, budget);
    size_t done = 0;
    for (const TextSpan m : w.spans) {
      if (done != m.begin) found.push_back({done, m.begin, invert});
      found.push_back({m.begin, m.end, !invert});
      done = m.end;
    }
    if (done != text.size()) found.push_back({done, text.size(), invert});
  }

  template <class IsMember>
  void find_characters(std::string_view text, const IsMember& is_member) {
    found.clear();
    size_t done = 0;
    for (size_t i = 0; i < text.size();) {
      const CodePoint c = code_point_at(text, i);
      const size_t end = i + static_cast<size_t>(c.size);
      if (is_member(c.value)) {
        if (done < i) found.push_back({done, i, false});
        found.push_back({i, end, true});
        done = end;
      }
      i = end;
    }
    if (done < text.size()) found.push_back({done, text.size(), false});
  }

  template <class Body>
  void for_each_word(const Body& body) {
    w.next_words.clear();
    for (const Word& word : w.words)
      if (word.begin != word.end) body(word, text_of(word));
    std::swap(w.words, w.next_words);
  }

  // Rewrites the text word by word; `rewrite` appends the word's new text.
  template <class Rewrite>
  void rewrite_words(const Rewrite& rewrite) {
    w.next_text.clear();
    for (Word& word : w.words) {
      const size_t begin = w.next_text.size();
      if (word.begin != word.end) rewrite(word, text_of(word));
      budget.check_bytes(w.next_text.size(), "the pre-tokenizer");
      word.begin = begin;
      word.end = w.next_text.size();
    }
    std::swap(w.text, w.next_text);
  }

  void operator()(const SplitStep& s) {
    if (s.pattern.scanner() && s.behavior == SplitBehavior::isolated) {  // matches and gaps alike are words
      for_each_word([&](const Word& word, std::string_view text) {
        for (size_t begin = 0; begin < text.size();) {
          const size_t end = scan_piece(*s.pattern.scanner(), text, begin);
          emit(word, begin, end);
          begin = end;
        }
      });
      return;
    }
    for_each_word([&](const Word& word, std::string_view text) {
      find(s.pattern, text, s.invert);
      emit_found(word, s.behavior);
    });
  }
  void operator()(const SplitOnClassStep& s) {
    for_each_word([&](const Word& word, std::string_view text) {
      find_characters(text, [&](uint32_t c) { return in_class(s.members, c); });
      emit_found(word, s.behavior);
    });
  }
  void operator()(const SplitOnCharacterStep& s) {
    for_each_word([&](const Word& word, std::string_view text) {
      find_characters(text, [&](uint32_t c) { return c == s.character; });
      emit_found(word, SplitBehavior::removed);
    });
  }
  void operator()(const WhitespaceStep&) {
    const auto kind = [](uint32_t c) { return in_class(CharClass::word, c) ? 1 : is_space(c) ? 0 : 2; };
    for_each_word([&](const Word& word, std::string_view text) {
      for (size_t i = 0; i < text.size();) {
        const size_t begin = i;
        const int run = kind(code_point_at(text, i).value);
        while (i < text.size() && kind(code_point_at(text, i).value) == run)
          i += static_cast<size_t>(code_point_at(text, i).size);
        if (run != 0) emit(word, begin, i);
      }
    });
  }
  void operator()(const ByteLevelStep& s) {
    if (s.add_prefix_space)
      rewrite_words([&](const Word&, std::string_view text) {
        if (!text.starts_with(' ')) w.next_text += ' ';
        w.next_text += text;
      });
    if (s.use_regex)
      for_each_word([&](const Word& word, std::string_view text) {
        for (size_t begin = 0; begin < text.size();) {
          const size_t end = scan_piece(ScanKind::gpt2, text, begin);
          emit(word, begin, end);
          begin = end;
        }
      });
    rewrite_words([&](const Word&, std::string_view text) { append_byte_level(text, w.next_text); });
  }
  void operator()(const MetaspaceStep& s) {
    rewrite_words([&](const Word& word, std::string_view text) {
      const bool has_it = text.starts_with(' ') || text.starts_with(s.replacement);
      if (!has_it && (s.scheme == PrependScheme::always || (s.scheme == PrependScheme::first && word.front > 0)))
        w.next_text += s.replacement;
      for (const char c : text) {
        if (c == ' ')
          w.next_text += s.replacement;
        else
          w.next_text += c;
      }
    });
    if (!s.split) return;
    const uint32_t replacement = code_point_at(s.replacement, 0).value;
    for_each_word([&](const Word& word, std::string_view text) {
      find_characters(text, [&](uint32_t c) { return c == replacement; });
      emit_found(word, SplitBehavior::merged_with_next);
    });
  }
};

}  // namespace

void split_words(const std::vector<SplitTextStep>& steps, std::string_view text, size_t front, WordSplitter& w,
                 TextBudget& budget) {
  w.text = text;
  w.words.assign(1, {0, text.size(), front});
  Splitting state{w, budget};
  for (const SplitTextStep& step : steps) {
    budget.spend_work(w.text.size() + TextBudget::kWordWork * w.words.size(), "the pre-tokenizer");
    std::visit(state, step);
  }
  // The words of all parts of the text become ids that are all kept.
  budget.spend_work(w.text.size() + TextBudget::kWordWork * w.words.size(), "the pre-tokenizer");
  budget.spend_bytes(w.text.size(), "the pre-tokenizer");
}

}  // namespace tern
