#include "formats/tokenizer_steps.h"

#include "base/error.h"
#include "formats/bpe.h"

namespace tern {

namespace {

// A stranger's steps may double a text again and again; no known normalizer makes even 20 times as much of it.
constexpr size_t kMaxGrowth = 64, kAlwaysAllowedBytes = 1 << 20;

std::string replace_all(const Regex& pattern, std::string_view text, std::string_view content, size_t max_bytes) {
  std::vector<TextSpan> matches;
  pattern.find_all(text, matches);
  std::string out;
  size_t done = 0;
  for (const TextSpan m : matches) {
    out.append(text.substr(done, m.begin - done)).append(content);
    done = m.end;
    if (out.size() > max_bytes)
      throw Error(ErrorKind::bad_file,
                  "normalizer: Replace makes more than {} bytes of the text; is tokenizer.json to be trusted?",
                  max_bytes);
  }
  return out.append(text.substr(done));
}

struct Normalizing {
  std::string text;
  size_t max_bytes;
  bool front_removed = false;

  void operator()(const PrependStep& s) {
    if (!text.empty()) text.insert(0, s.text);
  }
  void operator()(const ReplaceStep& s) { text = replace_all(s.pattern, text, s.content, max_bytes); }
  void operator()(const UnicodeStep& s) { text = normalize_unicode(text, s.form); }
  void operator()(const LowercaseStep&) { text = lowercase_unicode(text); }
  void operator()(const StripAccentsStep&) {
    std::string out;
    for (size_t i = 0; i < text.size();) {
      const CodePoint c = code_point_at(text, i);
      if (!in_class(CharClass::accent, c.value)) out.append(text, i, static_cast<size_t>(c.size));
      i += static_cast<size_t>(c.size);
    }
    text = std::move(out);
  }
  void operator()(const StripSpacesStep& s) {
    size_t begin = 0, end = text.size();
    while (s.left && begin < end && is_space(code_point_at(text, begin).value))
      begin += static_cast<size_t>(code_point_at(text, begin).size);
    while (s.right && end > begin && is_space(code_point_at(text, code_point_before(text, end)).value))
      end = code_point_before(text, end);
    front_removed |= begin > 0;
    text = text.substr(begin, end - begin);
  }
  void operator()(const ByteLevelTextStep&) {
    std::string out;
    append_byte_level(text, out);
    text = std::move(out);
  }
};

}  // namespace

std::string normalize(const std::vector<NormalizeStep>& steps, std::string_view text, bool& front_removed) {
  Normalizing state{std::string(text), kMaxGrowth * text.size() + kAlwaysAllowedBytes};
  for (const NormalizeStep& step : steps) std::visit(state, step);
  // "¨" becomes a space and a mark: strip the space, and what stays still comes from the first character.
  front_removed = state.front_removed && !text.empty() && is_space(code_point_at(text, 0).value);
  return std::move(state.text);
}

}  // namespace tern
