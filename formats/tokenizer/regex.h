#pragma once
// Regular expressions of tokenizers. Few patterns, which nearly all models use, are scanned by hand (scan.h); the
// others run on Oniguruma, the engine of the reference (Hugging Face's tokenizers), with the reference's newer character tables.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/text_span.h"
#include "formats/tokenizer/budget.h"
#include "formats/tokenizer/scan.h"

namespace tern {

/// A compiled pattern; a copy shares it.
class Regex {
 public:
  /// Errors  bad_file "PLACE: pattern …: reason".
  Regex(std::string_view pattern, std::string_view place);
  /// A pattern that matches `literal` and nothing else.
  static Regex from_literal(std::string_view literal);

  /// Appends the non-overlapping matches, left to right, as the reference iterates: an empty match right behind a match
  /// is skipped. `text` is valid UTF-8. Errors  bad_file: the pattern needs more steps than the budget has, or too much
  /// stack.
  void find_all(std::string_view text, std::vector<TextSpan>& matches, TextBudget&) const;
  const std::string& pattern() const { return pattern_; }
  bool is_literal() const { return is_literal_; }
  /// The scanner that cuts a text into the same matches and gaps in less time; absent: there is none.
  std::optional<ScanKind> scanner() const { return scanner_; }
  /// Makes this run Oniguruma even where there is a scanner, for tests that compare both.
  void without_scanner() { scanner_.reset(), compile(); }

 private:
  Regex() = default;
  void compile();

  std::string pattern_, place_;
  std::optional<ScanKind> scanner_;
  bool is_literal_ = false;
  std::shared_ptr<const void> compiled_;
};

}  // namespace tern
