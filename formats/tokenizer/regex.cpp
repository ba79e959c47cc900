#include "formats/tokenizer/regex.h"

#include <oniguruma.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "base/error.h"
#include "formats/tokenizer/literal.h"
#include "formats/tokenizer/scan.h"
#include "formats/tokenizer/unicode.h"

namespace tern {

namespace {

// General categories whose tables come from the reference; "\p{L}" is compiled as "\p{ternL}".
struct Property {
  std::string_view name, ours;
  CharClass members;
};
constexpr Property kProperties[] = {
    {"L", "ternL", CharClass::letter},     {"Lu", "ternLu", CharClass::upper},
    {"Ll", "ternLl", CharClass::lower},    {"Lt", "ternLt", CharClass::title},
    {"Lm", "ternLm", CharClass::modifier}, {"Lo", "ternLo", CharClass::other_letter},
    {"M", "ternM", CharClass::mark},       {"N", "ternN", CharClass::number},
    {"Nd", "ternNd", CharClass::digit},    {"P", "ternP", CharClass::punctuation},
    {"S", "ternS", CharClass::symbol},     {"Han", "ternHan", CharClass::han},
};

// Stack that a match may take: a stranger's pattern must not fill the memory. A greedy run pushes about
// one entry per character, so a megabyte of letters passes.
constexpr unsigned kMaxStackEntries = 4'000'000;
// Steps of a search before the budget pays, and how many times as many are tried next. Oniguruma says that a limit was
// passed and not how many steps were taken: a search that passes one is paid with it and begins again.
constexpr unsigned long kFreeSteps = 256, kNextSteps = 8;
constexpr size_t kMaxPatternBytes = 1 << 16, kBytesOfAStep = 1024;

void start_oniguruma() {
  static std::once_flag once;
  std::call_once(once, [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    TERN_CHECK(onig_initialize(encodings, 1) == ONIG_NORMAL, "Oniguruma did not start");
    onig_set_match_stack_limit_size(kMaxStackEntries);
    onig_set_parse_depth_limit(250);
    static std::array<std::vector<OnigCodePoint>, std::size(kProperties)> tables;  // Oniguruma keeps pointers to them
    for (size_t i = 0; i < std::size(kProperties); ++i) {
      const auto ranges = code_ranges(kProperties[i].members);
      tables[i].push_back(static_cast<OnigCodePoint>(ranges.size()));
      for (const CodeRange r : ranges) tables[i].insert(tables[i].end(), {r.first, r.last});
      const int code = onig_unicode_define_user_property(kProperties[i].ours.data(), tables[i].data());
      TERN_CHECK(code == ONIG_NORMAL, "Oniguruma refuses property {} ({})", kProperties[i].ours, code);
    }
  });
}

std::string with_our_properties(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size();) {
    if (pattern[i] != '\\' || i + 1 >= pattern.size()) {
      out += pattern[i++];
      continue;
    }
    const size_t close = pattern.find('}', i);
    if ((pattern[i + 1] == 'p' || pattern[i + 1] == 'P') && pattern.substr(i + 2, 1) == "{" && close != pattern.npos) {
      std::string_view name = pattern.substr(i + 3, close - i - 3);
      const bool negated = name.starts_with('^');
      if (negated) name.remove_prefix(1);
      for (const Property& p : kProperties)
        if (p.name == name) name = p.ours;
      out.append(pattern.substr(i, 3)).append(negated ? "^" : "").append(name) += '}';
      i = close + 1;
      continue;
    }
    out.append(pattern.substr(i, 2));
    i += 2;
  }
  return out;
}

std::string onig_message(int code, const OnigErrorInfo* info) {
  OnigUChar buffer[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int size = info ? onig_error_code_to_str(buffer, code, info) : onig_error_code_to_str(buffer, code);
  return std::string(reinterpret_cast<const char*>(buffer), static_cast<size_t>(size));
}

// One text searched again and again.
class Search {
 public:
  Search(regex_t* regex, std::string_view text, size_t pattern_bytes)
      : regex_(regex),
        text_(text),
        weight_(1 + pattern_bytes / kBytesOfAStep),
        region_(onig_region_new()),
        param_(onig_new_match_param()) {
    TERN_CHECK(region_ && param_, "Oniguruma has no memory");
    onig_initialize_match_param(param_);
    onig_set_match_stack_limit_size_of_match_param(param_, kMaxStackEntries);
  }
  ~Search() {
    onig_region_free(region_, 1);
    onig_free_match_param(param_);
  }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // Where the next match at or behind `from` begins, or Oniguruma's code.
  int next(size_t from, TextBudget& budget) {
    const auto* begin = reinterpret_cast<const OnigUChar*>(text_.data());
    const OnigUChar* end = begin + text_.size();
    for (unsigned long limit = std::max(1ul, kFreeSteps / weight_);; limit *= kNextSteps) {
      if (limit != limit_) {
        limit_ = limit;
        onig_set_retry_limit_in_match_of_match_param(param_, limit);
        onig_set_retry_limit_in_search_of_match_param(param_, limit);
      }
      const int code = onig_search_with_param(regex_, begin, end, begin + from, end, region_, ONIG_OPTION_NONE, param_);
      const bool over = code == ONIGERR_RETRY_LIMIT_IN_MATCH_OVER || code == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER;
      if (!over || !budget.spend_steps(static_cast<int64_t>(limit * weight_))) return code;
    }
  }
  TextSpan match() const { return {static_cast<size_t>(region_->beg[0]), static_cast<size_t>(region_->end[0])}; }

 private:
  regex_t* regex_;
  std::string_view text_;
  unsigned long weight_;  // of a step, in which Oniguruma may compare all of a long pattern
  OnigRegion* region_;
  OnigMatchParam* param_;
  unsigned long limit_ = 0;
};

}  // namespace

Regex::Regex(std::string_view pattern, std::string_view place) : pattern_(pattern), place_(place) {
  if (pattern.size() > kMaxPatternBytes)
    throw Error(ErrorKind::bad_file, "{}: a pattern of {} bytes, at most {} are read; is this file a tokenizer's?",
                place, pattern.size(), kMaxPatternBytes);
  for (int kind = 0; kind < kNumScanKinds; ++kind)
    if (pattern == pattern_of(static_cast<ScanKind>(kind))) scanner_ = static_cast<ScanKind>(kind);
  if (!scanner_ || !scan_tiles(*scanner_)) compile();
}

Regex Regex::from_literal(std::string_view literal) {
  Regex r;
  r.pattern_ = literal;
  r.is_literal_ = true;
  return r;
}

void Regex::compile() {
  start_oniguruma();
  const std::string pattern = with_our_properties(pattern_);
  const auto* begin = reinterpret_cast<const OnigUChar*>(pattern.data());
  regex_t* regex = nullptr;
  OnigErrorInfo info{};
  static std::mutex mutex;  // compiling touches tables shared by all patterns
  const std::lock_guard lock(mutex);
  const int code = onig_new(&regex, begin, begin + pattern.size(), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                            ONIG_SYNTAX_ONIGURUMA, &info);
  if (code != ONIG_NORMAL)
    throw Error(ErrorKind::bad_file, "{}: pattern '{}': {}; expected a regular expression of Oniguruma's syntax",
                place_, std::string_view(pattern_).substr(0, 200), onig_message(code, &info));
  compiled_ =
      std::shared_ptr<const void>(regex, [](const void* p) { onig_free(static_cast<regex_t*>(const_cast<void*>(p))); });
}

void Regex::find_all(std::string_view text, std::vector<TextSpan>& matches, TextBudget& budget) const {
  if (scanner_ && scan_tiles(*scanner_)) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = scan_piece(*scanner_, text, begin);
      matches.push_back({begin, end});
      begin = end;
    }
    return;
  }
  if (is_literal_) {
    if (pattern_.empty()) return;
    find_literal(text, pattern_, matches);
    return;
  }

  budget.spend_work(TextBudget::kFindWork);  // the first search says if that was too much
  Search search(static_cast<regex_t*>(const_cast<void*>(compiled_.get())), text, pattern_.size());
  std::optional<size_t> last_end;
  for (size_t from = 0; from <= text.size();) {
    if (!budget.spend_work(TextBudget::kSearchWork))
      throw Error(
          ErrorKind::bad_file,
          "{}: pattern '{}' is searched for more than {} times for each byte of the text, beside what the other "
          "steps take; a simpler pattern is needed",
          place_, std::string_view(pattern_).substr(0, 200), TextBudget::kWorkPerByte / TextBudget::kSearchWork);
    const int code = search.next(from, budget);
    if (code == ONIG_MISMATCH) return;
    if (code < 0)
      throw Error(ErrorKind::bad_file, "{}: pattern '{}' on {} bytes of text: {}; a simpler pattern is needed", place_,
                  std::string_view(pattern_).substr(0, 200), text.size(), onig_message(code, nullptr));
    const TextSpan match = search.match();
    if (match.begin == match.end && last_end == match.end) {
      from += from < text.size() ? static_cast<size_t>(code_point_at(text, from).size) : 1;
      continue;
    }
    matches.push_back(match);
    from = match.end;
    last_end = match.end;
  }
}

}  // namespace tern
